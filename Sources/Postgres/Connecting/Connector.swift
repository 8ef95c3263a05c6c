// Makes a connection, on a helper thread: `PQconnectPoll` looks names up, reads password and certificate files and may ask
// a Kerberos server, all of it blocking. Names are looked up here, each address is tried with a bound of its own while `host` stays the
// name that certificates are checked against, and every server of the list is tried before giving up; libpq alone would stop at the
// first one that refuses, and would leave no SQLSTATE to tell why.

import CLibPQ
import Glibc
import Reactor
import Synchronization
import Telemetry

/// One attempt to connect, which tries every server once.
final class Connector: Sendable {
    /// Attempts of all loops of the process share these threads, so that a slow database cannot hold up other name look-ups.
    private static let threads = BlockingThreads(limit: 16, queueLimit: 256)

    private let configuration: PostgresConfiguration
    private let logger: Logger
    private let isAbandoned = Atomic(false)

    init(configuration: PostgresConfiguration, logger: Logger) {
        self.configuration = configuration
        self.logger = logger
    }

    /// Begins the attempt; `completion` is called once, on `loop`, unless the attempt was abandoned.
    func start(on loop: EventLoop, completion: @escaping (Result<LibPQ, PostgresError>) -> Void) {
        let delivery = Delivery(completion)
        let isTaken = Connector.threads.run { [self] in
            let result = connect()
            loop.execute { [self] in delivery.deliver(unless: isAbandoned, result) }
        }
        guard !isTaken else { return }
        loop.schedule(after: .zero) { [self] in
            let error = PostgresError(.unreachable, "too many connection attempts are under way")
            delivery.deliver(unless: isAbandoned, .failure(error))
        }
    }

    /// Gives the attempt up: its thread ends soon, and what it may still bring is closed.
    func abandon() { isAbandoned.store(true, ordering: .relaxed) }

    /// The longest that all addresses that are usual (two a name) may take together.
    var bound: Duration { configuration.connectTimeout * max(2, 2 * configuration.targets.count) }
}

// MARK: - On the helper thread

extension Connector {
    private func connect() -> Result<LibPQ, PostgresError> {
        if configuration.targets.isEmpty {
            return connect(Attempt(name: "server of the service file", keywords: configuration.keywords))
        }
        var failure: PostgresError?
        for target in configuration.targets {
            switch connect(target) {
            case .success(let connection): return .success(connection)
            case .failure(let error): failure = ConnectFailure.worse(failure, error)
            }
        }
        return .failure(failure ?? PostgresError(.unreachable, "no server to connect to"))
    }

    private func connect(_ target: PostgresConfiguration.Target) -> Result<LibPQ, PostgresError> {
        var failure: PostgresError?
        do {
            for address in try addresses(of: target) where !isAbandoned.load(ordering: .relaxed) {
                switch connect(attempt(at: target, address: address)) {
                case .success(let connection): return .success(connection)
                case .failure(let error): failure = ConnectFailure.worse(failure, error)
                }
            }
        } catch {
            return .failure(error)
        }
        return .failure(failure ?? PostgresError(.unreachable, "\(target.name): no address"))
    }

    /// One address to try, and what to call it.
    private struct Attempt {
        var name: String
        var keywords: [(keyword: String, value: String)]
    }

    private func attempt(at target: PostgresConfiguration.Target, address: String) -> Attempt {
        var keywords = configuration.keywords
        keywords.append(("host", target.host))
        keywords.append(("hostaddr", address))
        if !target.port.isEmpty { keywords.append(("port", target.port)) }
        let name = address.isEmpty || address == target.host ? target.name : "\(target.name) (\(address))"
        return Attempt(name: name, keywords: keywords)
    }

    /// Numeric addresses of a target; one empty text when there is nothing to look up.
    private func addresses(of target: PostgresConfiguration.Target) throws(PostgresError) -> [String] {
        guard target.needsLookup else { return [target.address] }
        do {
            var addresses: [String] = []
            for address in try SocketAddress.lookUp(host: target.host, port: 0).map(\.host)
            where !addresses.contains(address) { addresses.append(address) }
            return addresses
        } catch {
            throw PostgresError(.unreachable, "\(target.name): \(error)")
        }
    }

    private func connect(_ attempt: Attempt) -> Result<LibPQ, PostgresError> {
        guard let connection = LibPQ(keywords: attempt.keywords, logger: logger) else {
            return .failure(PostgresError(.unreachable, "\(attempt.name): out of memory"))
        }
        // The only way to learn the SQLSTATE of a refusal; see ConnectFailure.
        unsafe PQsetErrorVerbosity(connection.connection, PQERRORS_VERBOSE)
        if let error = complete(connection, attempt.name) { return .failure(error) }
        unsafe PQsetErrorVerbosity(connection.connection, PQERRORS_DEFAULT)
        return .success(connection)
    }

    /// Drives `PQconnectPoll` to its end; nil when connected.
    private func complete(_ connection: LibPQ, _ name: String) -> PostgresError? {
        let deadline = MonotonicTime.now().advanced(by: configuration.connectTimeout)
        var step = connection.isBad ? PGRES_POLLING_FAILED : PGRES_POLLING_WRITING
        while step != PGRES_POLLING_OK {
            guard step == PGRES_POLLING_READING || step == PGRES_POLLING_WRITING else {
                return failure(of: connection, name)
            }
            guard wait(for: step, connection.descriptor, until: deadline) else {
                let bound = configuration.connectTimeout.millisecondsRoundedUp
                return PostgresError(.unreachable, "\(name): no answer within \(bound) ms")
            }
            step = unsafe PQconnectPoll(connection.connection)
        }
        return nil
    }

    private func failure(of connection: LibPQ, _ name: String) -> PostgresError {
        ConnectFailure.error(
            message: unsafe String(cString: PQerrorMessage(connection.connection)),
            needsPassword: unsafe PQconnectionNeedsPassword(connection.connection) != 0, target: name)
    }

    /// Waits for the descriptor in slices, so that an abandoned attempt ends soon; false when time is up.
    private func wait(
        for step: PostgresPollingStatusType, _ descriptor: Int32, until deadline: MonotonicTime
    ) -> Bool {
        let events = Int16(step == PGRES_POLLING_READING ? POLLIN : POLLOUT)
        while !isAbandoned.load(ordering: .relaxed) {
            let remaining = deadline.since(.now()).millisecondsRoundedUp
            guard remaining > 0 else { return false }
            var watch = pollfd(fd: descriptor, events: events, revents: 0)
            if unsafe poll(&watch, 1, Int32(min(remaining, 100))) > 0 { return true }
        }
        return false
    }
}

/// A completion on its way to its loop; touched there only, the helper thread merely carries the reference.
private final class Delivery: @unchecked Sendable {
    private let completion: (Result<LibPQ, PostgresError>) -> Void

    init(_ completion: @escaping (Result<LibPQ, PostgresError>) -> Void) { self.completion = completion }

    func deliver(unless isAbandoned: borrowing Atomic<Bool>, _ result: Result<LibPQ, PostgresError>) {
        if !isAbandoned.load(ordering: .relaxed) { completion(result) }
    }
}
