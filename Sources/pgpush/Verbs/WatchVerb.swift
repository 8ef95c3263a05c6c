// watch: follows one notification to its end. On a terminal one line is redrawn twice a second; elsewhere a line is written when
// something has changed. A database that goes away is waited for, as a worker would.

import Postgres
import PushStore
import Reactor

extension Verb {
    static let watch = Verb(
        name: "watch", summary: "follows a notification until it is finished", operands: "ID", operandCount: 1...1,
        details: """
            On a terminal: a progress bar with rate, accepted, rejected and remaining time. Elsewhere, and with --json, a
            line for each change. Exit code 0 if it was sent, 1 if it ended in any other way.
            """,
        options: [.interval, .schema, .json],
        examples: [
            Example("pgpush watch 42", "until it is sent, failed, skipped, cancelled or expired"),
            Example(
                "pgpush watch $(pgpush enqueue --broadcast --body Hello --yes)", "stores a broadcast and follows it"),
        ]
    ) { call in
        let id = try call.arguments.identifier(0)
        let isLive = call.console.liveWidth != nil && !call.wantsJSON
        let interval = try call.arguments.integer(.interval, 1...3600).map { Duration.seconds($0) }
        let settings = try call.databaseSettings()
        if isLive { Interrupt.breakLine() }
        return try call.withSession(settings.connectionString, settings.schema) { session, loop in
            let store = OperatorStore(session: session, schema: settings.schema)
            let view = WatchView(call: call, id: id, isLive: isLive)
            return try await view.follow(store, loop, every: interval ?? (isLive ? .milliseconds(500) : .seconds(1)))
        }
    }
}

/// What is shown while a notification is followed; used on one loop.
private final class WatchView {
    /// How long a database may be away.
    private static let patience = Duration.seconds(60)

    private let call: Invocation
    private let id: Int64
    private let isLive: Bool
    private var meter = RateMeter()
    private var last: NotificationProgress?

    init(call: Invocation, id: Int64, isLive: Bool) {
        self.call = call
        self.id = id
        self.isLive = isLive
    }

    func follow(_ store: OperatorStore, _ loop: EventLoop, every interval: Duration) async throws -> ExitCode {
        var seenAt = MonotonicTime.now()
        while true {
            do throws(PostgresError) {
                let progress = try await store.progress(id)
                seenAt = MonotonicTime.now()
                guard let progress else { break }
                show(progress, at: Double(seenAt.nanoseconds) / 1e9)
                if progress.isFinal { return finish(progress) }
            } catch {
                // The first look must succeed; afterwards only a fault that may pass is waited out.
                guard last != nil, error.reaction == .retry, MonotonicTime.now().since(seenAt) < Self.patience else {
                    throw error
                }
            }
            _ = await LoopSignal(loop: loop).wait(interval)
        }
        throw CommandFailure(.nothingMatched, "there is no notification \(id)")
    }

    private func show(_ progress: NotificationProgress, at seconds: Double) {
        if progress.status != "pending" {
            meter.add(progress.accepted + progress.rejected + progress.unknown, at: seconds)
        }
        let snapshot = ProgressSnapshot(progress, rate: progress.isFinal ? nil : meter.rate)
        if isLive, let width = call.console.liveWidth {
            call.console.redraw(ProgressBar.line(snapshot, width: width, style: call.console.noteStyle))
        } else if last?.isSameToReaders(progress) != true {
            if call.wantsJSON {
                call.console.data(progress.json)
            } else {
                call.console.data(ProgressBar.sentence(snapshot))
            }
        }
        last = progress
    }

    private func finish(_ progress: NotificationProgress) -> ExitCode {
        if isLive {
            call.console.note("")
            call.console.data(ProgressBar.sentence(ProgressSnapshot(progress, rate: nil)))
        }
        if let error = progress.error { call.console.note("notification \(id): \(DisplayText.cleaned(error))") }
        return progress.status == "sent" ? .done : .failed
    }
}

extension NotificationProgress {
    /// Whether a reader of lines would learn nothing new; the time until it is due passes by itself.
    fileprivate func isSameToReaders(_ other: NotificationProgress) -> Bool {
        status == other.status && total == other.total && accepted == other.accepted && rejected == other.rejected
            && unknown == other.unknown
    }
}

extension ProgressSnapshot {
    fileprivate init(_ progress: NotificationProgress, rate: Double?) {
        self.init(
            status: progress.status, total: progress.total, accepted: progress.accepted, rejected: progress.rejected,
            unknown: progress.unknown, rate: rate,
            dueIn: progress.status == "pending" && progress.dueIn > 0 ? progress.dueIn : nil)
    }
}

extension Option {
    static let interval = Option(
        "interval", letter: "i", value: "SECONDS", "how often to look (0.5 on a terminal, else 1)")
}
