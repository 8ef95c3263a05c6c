// LISTEN on its own connection.

import Reactor
import Telemetry
import TestSupport
import Testing

@testable import Postgres

@Suite("Listener") struct ListenerTests {
    /// Events in the order in which they came, and a way to wait for the next.
    private final class Events {
        private(set) var seen: [PostgresListener.Event] = []
        private let signal: LoopSignal

        init(_ loop: EventLoop) { signal = LoopSignal(loop: loop) }

        func add(_ event: PostgresListener.Event) {
            seen.append(event)
            signal.raise()
        }

        /// Takes the next event that `isWanted`; fails the test after 20 s.
        func next(
            isolation: isolated (any Actor)? = #isolation, _ isWanted: (PostgresListener.Event) -> Bool
        ) async -> PostgresListener.Event? {
            while true {
                if let index = seen.firstIndex(where: isWanted) {
                    let event = seen[index]
                    seen.removeFirst(index + 1)
                    return event
                }
                guard await signal.wait(.seconds(20)) else {
                    Issue.record("no such event came")
                    return nil
                }
            }
        }
    }

    private func isListening(_ event: PostgresListener.Event) -> Bool {
        if case .listening = event { true } else { false }
    }

    private func isNotified(_ event: PostgresListener.Event) -> Bool {
        if case .notified = event { true } else { false }
    }

    @Test("notifications arrive, and again after the connection was terminated")
    func wakes() async throws {
        let database = try sharedDatabase()
        let configuration = try PostgresConfiguration(
            connectionString: database.connectionString, applicationName: "listener", access: .any)
        try await onLoop { actor in
            let events = Events(actor.loop)
            let listener = PostgresListener(
                loop: actor.loop, configuration: configuration, channels: ["pgpush", "Odd \"name"], logger: .silent
            ) { events.add($0) }
            defer { listener.close() }
            for round in 1...2 {
                _ = await events.next(isListening)
                #expect(listener.isListening)
                try database.psql("NOTIFY pgpush; NOTIFY \"Odd \"\"name\", 'round \(round) ü'")
                guard case .notified("pgpush", "") = await events.next(isNotified) else {
                    Issue.record("not the first notification")
                    return
                }
                guard case .notified("Odd \"name", "round \(round) ü") = await events.next(isNotified) else {
                    Issue.record("not the second notification")
                    return
                }
                try database.psql(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'listener'")
                guard
                    case .lost(let error) = await events.next({ if case .lost = $0 { true } else { false } })
                else { return }
                #expect(error.sqlState == "57P01")
                #expect(!listener.isListening)
            }
            _ = await events.next(isListening)
        }
    }

    @Test("behind a pooler LISTEN is not to be had, and that is said")
    func pooler() async throws {
        let pooler = try Pooler(to: try PostgresCluster.shared())
        defer { pooler.stop() }
        let configuration = try PostgresConfiguration(connectionString: pooler.address, applicationName: "listener")
        try await onLoop { actor in
            let events = Events(actor.loop)
            let listener = PostgresListener(
                loop: actor.loop, configuration: configuration, channels: ["pgpush"], logger: .silent,
                retryAfter: .milliseconds(50)
            ) { events.add($0) }
            defer { listener.close() }
            for _ in 1...2 {
                guard
                    case .unavailable(let error) = await events.next({
                        if case .unavailable = $0 { true } else { false }
                    })
                else { return }
                #expect(error.message.contains("pooler"))
            }
            #expect(!listener.isListening)
        }
    }
}
