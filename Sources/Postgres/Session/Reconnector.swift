// Keeps one connection in being: connects, waits, connects again, for ever. What the connection is used for is its owner's
// business.
//
//     connecting ──► connected ──lost──► waiting ──► connecting
//         ╰─ failed ─────────────────────►┘

import Reactor
import Telemetry

/// Makes a new connection whenever there is none; loop-confined.
final class Reconnector {
    private enum State {
        case idle
        case connecting(Connector, bound: LoopTimer)
        case connected(PostgresConnection)
        case waiting(LoopTimer)
        case closed
    }

    let loop: EventLoop
    private let configuration: PostgresConfiguration
    private let logger: Logger
    private var state = State.idle
    private var policy = ReconnectPolicy()

    /// Called with each new connection.
    var onConnected: ((PostgresConnection) -> Void)?
    /// Called with each failure to connect.
    var onFailure: ((PostgresError) -> Void)?

    /// Why there is no connection at present; nil while there is one, and before the first attempt has failed.
    private(set) var lastError: PostgresError?

    init(loop: EventLoop, configuration: PostgresConfiguration, logger: Logger) {
        self.loop = loop
        self.configuration = configuration
        self.logger = logger
    }

    /// The connection, if there is one.
    var connection: PostgresConnection? {
        if case .connected(let connection) = state { return connection }
        return nil
    }

    /// Begins the first attempt.
    func start() {
        if case .idle = state { connect() }
    }

    /// A call was answered by the present connection.
    func proveGood() { policy.proveGood() }

    /// The present connection has gone; another will be made.
    func connectionLost(_ error: PostgresError) {
        guard case .connected = state else { return }
        logger.warning(
            "the connection to the database was lost",
            [.error: error.description, .database: configuration.description])
        lastError = error
        wait(after: error)
    }

    /// Makes no more connections and closes the present one.
    func close() {
        switch state {
        case .connecting(let connector, let bound):
            connector.abandon()
            loop.cancel(bound)
        case .connected(let connection): connection.close()
        case .waiting(let timer): loop.cancel(timer)
        case .idle, .closed: break
        }
        state = .closed
    }

    private func connect() {
        let connector = Connector(configuration: configuration, logger: logger)
        let bound = loop.schedule(after: connector.bound) { [weak self] in
            connector.abandon()
            self?.failed(PostgresError(.unreachable, "connecting took longer than \(connector.bound)"))
        }
        state = .connecting(connector, bound: bound)
        connector.start(on: loop) { [weak self] result in
            self?.loop.cancel(bound)
            self?.finished(result)
        }
    }

    private func finished(_ result: Result<LibPQ, PostgresError>) {
        guard case .connecting = state else { return }
        do {
            let connection = try PostgresConnection(taking: try result.get(), loop: loop, logger: logger)
            state = .connected(connection)
            lastError = nil
            logger.info("connected to the database", [.database: configuration.description])
            onConnected?(connection)
        } catch {
            failed(error)
        }
    }

    private func failed(_ error: PostgresError) {
        guard case .connecting = state else { return }
        logger.log(
            error.reaction == .alarm ? .error : .warning, "cannot connect to the database",
            [.error: error.description, .database: configuration.description])
        lastError = error
        wait(after: error)
        onFailure?(error)
    }

    private func wait(after error: PostgresError) {
        let needsPerson = error.reaction == .alarm
        let delay = policy.nextDelay(needsPerson: needsPerson, random: Double.random(in: 0...1))
        state = .waiting(
            loop.schedule(after: delay) { [weak self] in
                guard let self, case .waiting = state else { return }
                connect()
            })
    }
}

extension LogKey {
    static let database = LogKey("db.target")
}
