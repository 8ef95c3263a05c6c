// The first connection of a process. A command line verb wants an answer at once, a worker is ready to wait for a minute; neither
// wants to wait for what a person has to repair.

package import Postgres
import Reactor

/// Waits for the first connection of a session.
package enum SessionStart {
    /// Returns when there is a connection, within `limit`.
    ///
    /// A patient wait sits out faults that may pass (no answer, a server that is starting) and tells `waiting` of each new one;
    /// a wrong password or an unknown database ends it at once.
    ///
    /// - Throws: why there is no connection.
    package static func connect(
        _ session: PostgresSession, within limit: Duration, patient: Bool, waiting: (PostgresError) -> Void = { _ in }
    ) async throws(PostgresError) {
        let deadline = MonotonicTime.now().advanced(by: limit)
        if let fault = session.lastError, !patient || !isPassing(fault) { throw fault }
        var told: PostgresError?
        while true {
            do throws(PostgresError) {
                return try await session.attempt(timeout: deadline.since(.now()))
            } catch {
                let fault = session.lastError ?? error
                if !patient || !isPassing(fault) || MonotonicTime.now() >= deadline { throw fault }
                if fault.message != told?.message {
                    told = fault
                    waiting(fault)
                }
            }
        }
    }

    private static func isPassing(_ error: PostgresError) -> Bool {
        switch error.code {
        case .configuration, .authentication, .untrusted, .unknownDatabase, .closed: false
        default: true
        }
    }
}
