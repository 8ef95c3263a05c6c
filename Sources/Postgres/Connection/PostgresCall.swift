// One call on its way through the queue and over the wire. It ends exactly once, whatever happens to the connection.

import CLibPQ
import Reactor

/// What a caller asked for and where the answer goes; loop-confined.
final class PostgresCall {
    /// The kinds of calls.
    enum Work {
        /// Statements between BEGIN and COMMIT, under time limits of the server's.
        case transaction([PostgresStatement], PostgresLimits)
        /// Statements up to one sync: one implicit transaction, or a part of one that is open.
        case pipeline([PostgresStatement])
        /// Several statements as one text, in the simple protocol.
        case script(String)
    }

    private(set) var work: Work
    /// Set where the work tells how long ago something was: it is made anew when it has waited for its turn.
    private let make: (() -> Work)?
    /// Whether others were before it, or there was no connection.
    var hasWaited = false
    /// Fires when the whole call has taken too long; set by whoever accepted it.
    var timer: LoopTimer?
    private var completion: ((Result<[PostgresResult], PostgresError>) -> Void)?

    init(_ work: Work, completion: @escaping (Result<[PostgresResult], PostgresError>) -> Void) {
        self.work = work
        make = nil
        self.completion = completion
    }

    init(making make: @escaping () -> Work, completion: @escaping (Result<[PostgresResult], PostgresError>) -> Void) {
        work = make()
        self.make = make
        self.completion = completion
    }

    /// It goes on the wire now.
    func prepare() {
        if hasWaited, let make { work = make() }
    }

    /// Why the call cannot be sent at all, or nil.
    var fault: PostgresError? {
        let statements: [PostgresStatement]
        switch work {
        case .transaction(let list, _), .pipeline(let list): statements = list
        case .script: return nil
        }
        for (index, statement) in statements.enumerated() {
            guard let reason = statement.parameters.fault else { continue }
            var error = PostgresError(.encoding, reason)
            error.statement = index
            return error
        }
        return nil
    }

    /// Gives the caller the answer, once.
    func finish(_ result: Result<[PostgresResult], PostgresError>, _ loop: EventLoop) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard let completion else { return }
        self.completion = nil
        completion(result)
    }
}

/// Bounds that the server keeps for one transaction, whatever the role's settings say.
struct PostgresLimits: Equatable {
    /// How long one statement may take.
    var statement: Duration
    /// How long a statement may wait for a lock.
    var lock: Duration
    /// How long the server waits for the rest of a pipeline.
    var idle: Duration = .seconds(10)

    /// The statements that set them, for this transaction only: nothing of it outlives COMMIT, so a pooler may hand the
    /// server's connection to somebody else.
    var statements: [String] {
        [
            "SET LOCAL statement_timeout = \(PostgresLimits.milliseconds(statement))",
            "SET LOCAL lock_timeout = \(PostgresLimits.milliseconds(lock))",
            "SET LOCAL idle_in_transaction_session_timeout = \(PostgresLimits.milliseconds(idle))",
        ]
    }

    /// At least 1, as 0 would mean no limit.
    private static func milliseconds(_ duration: Duration) -> Int64 {
        min(max(duration.millisecondsRoundedUp, 1), Int64(Int32.max))
    }
}
