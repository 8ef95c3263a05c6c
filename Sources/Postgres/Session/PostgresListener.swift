// LISTEN on a connection of its own, so that notifications cost the working connection nothing and may go around a pooler.
//
// Nothing may depend on notifications: they are lost while there is no connection, and a pooler in transaction mode never
// delivers them although LISTEN succeeds there. A pooler is recognised by the process id that it makes up: when the server's own
// id is another one, the listener says `unavailable` and gives up for a while.
//
//     connecting ──► subscribing ──► listening ──lost──► connecting
//                        ╰─ pooler ─► unavailable ──(10 min)──► connecting

package import Reactor
package import Telemetry

/// Receives notifications for a set of channels; loop-confined, ended by `close`.
package final class PostgresListener {
    /// What a listener has to say.
    package enum Event {
        /// Notifications arrive from now on; what was sent before may have been missed, so look at the tables once.
        case listening
        /// A notification.
        case notified(channel: String, payload: String)
        /// The connection has gone; the listener comes back by itself.
        case lost(PostgresError)
        /// Notifications are not to be had this way; it is tried again much later.
        case unavailable(PostgresError)
    }

    private let loop: EventLoop
    private let logger: Logger
    private let configuration: PostgresConfiguration
    private let channels: [String]
    private let retryAfter: Duration
    private let handler: (Event) -> Void
    private var reconnector: Reconnector?
    private var retry: LoopTimer?
    private var isClosed = false

    /// Whether notifications arrive at present.
    package private(set) var isListening = false

    /// Begins to connect; `handler` is called on the loop.
    ///
    /// `configuration` should lead to the server itself. `retryAfter` is the pause after `unavailable`.
    package init(
        loop: EventLoop, configuration: PostgresConfiguration, channels: [String], logger: Logger,
        retryAfter: Duration = .seconds(600), handler: @escaping (Event) -> Void
    ) {
        self.loop = loop
        self.logger = logger
        self.configuration = configuration
        self.channels = channels
        self.retryAfter = retryAfter
        self.handler = handler
        connect()
    }

    deinit {
        // Elsewhere nothing of a loop may be touched; `close` is the way to end a listener.
        if loop.isCurrent { close() }
    }

    /// Ends the subscription and the connection.
    package func close() {
        isClosed = true
        isListening = false
        reconnector?.close()
        reconnector = nil
        if let retry { loop.cancel(retry) }
        retry = nil
    }

    private func connect() {
        let reconnector = Reconnector(loop: loop, configuration: configuration, logger: logger)
        reconnector.onConnected = { [weak self] connection in self?.subscribe(connection) }
        reconnector.onFailure = { [weak self] error in self?.handler(.lost(error)) }
        self.reconnector = reconnector
        reconnector.start()
    }

    private func subscribe(_ connection: PostgresConnection) {
        connection.owner = self
        let listens = channels.map { PostgresStatement("LISTEN \(PostgresListener.quoted($0))") }
        let check = PostgresStatement("SELECT pg_backend_pid()")
        let limits = PostgresLimits(statement: .seconds(5), lock: .seconds(5))
        let call = PostgresCall(.transaction(listens + [check], limits)) { [weak self, weak connection] result in
            if let self, let connection { subscribed(connection, result) }
        }
        call.timer = loop.schedule(after: .seconds(10)) { [weak connection] in
            connection?.abort(PostgresError(.deadline, "LISTEN was not answered within 10 s"))
        }
        if !connection.start(call) {
            call.finish(.failure(PostgresError(.connectionLost, "the connection broke")), loop)
        }
    }

    private func subscribed(_ connection: PostgresConnection, _ result: Result<[PostgresResult], PostgresError>) {
        do {
            guard let row = try result.get().last else { return }
            guard try row.int32(0, 0) == connection.backendPID else {
                let reason = "the connection goes through a pooler, which does not deliver notifications"
                return giveUp(PostgresError(.protocolViolation, reason))
            }
            isListening = true
            reconnector?.proveGood()
            handler(.listening)
        } catch {
            // A lost connection is reported by its owner's callback; this one is still there, but LISTEN was refused.
            if connection.isClosed { return }
            if error.reaction == .retry { connection.abort(error) } else { giveUp(error) }
        }
    }

    private func giveUp(_ error: PostgresError) {
        logger.notice("notifications are not available", [.error: error.description])
        reconnector?.close()
        reconnector = nil
        retry = loop.schedule(after: retryAfter) { [weak self] in
            if let self, !isClosed { connect() }
        }
        handler(.unavailable(error))
    }

    /// An identifier in quotes, whatever it consists of.
    static func quoted(_ identifier: String) -> String {
        var text = "\""
        for character in identifier.unicodeScalars where character != "\0" {
            if character == "\"" { text.append("\"") }
            text.unicodeScalars.append(character)
        }
        return text + "\""
    }
}

extension PostgresListener: PostgresConnectionOwner {
    func connectionIsIdle(_ connection: PostgresConnection) {}

    func connectionIsLost(_ connection: PostgresConnection, _ error: PostgresError) {
        isListening = false
        reconnector?.connectionLost(error)
        handler(.lost(error))
    }

    func connection(_ connection: PostgresConnection, notified channel: String, payload: String) {
        handler(.notified(channel: channel, payload: payload))
    }
}
