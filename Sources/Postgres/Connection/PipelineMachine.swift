// What the stream of results of one pipeline means. Pure: events in, verdict out, no libpq.
//
// A transaction goes out as one pipeline with one sync:
//
//     BEGIN │ SET LOCAL ×3 │ statement … │ COMMIT │ sync
//     ╰──── preamble ─────╯ ╰── body ──╯
//
// libpq gives for each statement one result and an end, and for the sync a result without an end. After an error the server
// skips everything up to the sync, COMMIT too, and leaves the transaction open and failed: it is then rolled back. What was
// heard before a connection broke decides whether the transaction may have been committed:
//
//     COMMIT was confirmed            committed: the results are all there, the call has succeeded
//     the server refused a statement  not applied
//     nothing of the call was sent    not applied
//     anything else                   unknown

/// Follows one pipeline from its first result to its sync.
struct PipelineMachine {
    /// The shape of a pipeline.
    struct Plan: Equatable {
        /// Statements before those of the caller.
        var preamble: Int
        /// Statements of the caller.
        var body: Int
        /// Whether COMMIT follows; without it the sync ends an implicit transaction.
        var commits: Bool

        var count: Int { preamble + body + (commits ? 1 : 0) }
    }

    /// Where the server stands when it has synced.
    enum TransactionState { case idle, open, failed }

    /// What to do after the sync.
    enum Verdict: Equatable {
        /// All statements were carried out and committed.
        case succeeded
        /// A statement was refused; nothing is open any more.
        case failed(PostgresError)
        /// A statement was refused and the transaction must be rolled back.
        case mustRollBack(PostgresError)
    }

    private let plan: Plan
    private var position = 0
    private var isSent = false
    private(set) var isCommitted = false
    private var failure: PostgresError?

    init(_ plan: Plan) { self.plan = plan }

    /// Bytes of the last statement may have reached the server from now on.
    mutating func lastStatementSent() { isSent = true }

    /// A result of a successful statement; true when it belongs to the caller.
    mutating func succeeded(commandTag: @autoclosure () -> String) -> Bool {
        if plan.commits && position == plan.count - 1 { committed(commandTag()) }
        return (plan.preamble..<(plan.preamble + plan.body)).contains(position)
    }

    // A failed transaction answers COMMIT with ROLLBACK and no error.
    private mutating func committed(_ commandTag: String) {
        isCommitted = commandTag == "COMMIT"
        if !isCommitted && failure == nil {
            failure = PostgresError(.protocolViolation, "COMMIT was answered with \(commandTag)")
        }
    }

    /// An error result.
    mutating func refused(_ error: PostgresError) {
        guard failure == nil else { return }
        var error = error
        let index = position - plan.preamble
        if index >= 0 && index < plan.body { error.statement = index }
        if isSent && !SQLState.rulesOutCommit(error.sqlState, severity: error.severity) { error.outcome = .unknown }
        failure = error
    }

    /// The end of a statement's results; false when there are more of them than statements.
    mutating func ended() -> Bool {
        position += 1
        return position <= plan.count
    }

    /// The sync's own result.
    mutating func synced(_ state: TransactionState) -> Verdict {
        let isComplete = position == plan.count && (isCommitted || !plan.commits)
        if failure == nil && !isComplete {
            var error = PostgresError(.protocolViolation, "a pipeline ended before its last statement")
            error.outcome = isSent ? .unknown : .notApplied
            failure = error
        }
        guard let failure else { return .succeeded }
        return state == .idle ? .failed(failure) : .mustRollBack(failure)
    }

    /// The connection broke: the call's error, or nil when it had succeeded.
    func lost(_ error: PostgresError) -> PostgresError? {
        if isCommitted { return nil }
        if let failure { return failure }
        var error = error
        error.outcome = isSent ? .unknown : .notApplied
        return error
    }
}
