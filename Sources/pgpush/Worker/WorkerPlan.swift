// All that a worker is told, checked: the bridge between command line and environment on one side and the pipeline on the other.

import Admin
import CLinux
import Postgres
import PushModel
import PushStore
import Reactor
import TLS
import Telemetry

/// What a worker will do, with its credentials loaded.
struct WorkerPlan: Sendable {
    let once: Bool
    let pollInterval: Duration
    let batchSize: Int
    let lanes: Int
    let connections: Int
    let grace: Duration

    let push: PushSettings
    /// The environment, to read the credentials again.
    let variables: [String: String]
    let environment: PushEnvironment?
    /// Where metrics and health are served.
    ///
    /// Never with --once: who runs from cron is gone before anybody asks, and would meet the
    /// worker that has the port.
    let http: AdminAddress?

    let schema: SchemaName
    let database: PostgresConfiguration
    /// Where LISTEN works: around a pooler, if a way around it is named.
    let listenDatabase: PostgresConfiguration
    let logger: Logger

    /// Reads and checks options and environment; touches no network.
    init(_ call: Invocation) throws {
        let arguments = call.arguments
        let settings = Settings(environment: call.environment)
        once = arguments.has(.once)
        pollInterval = .seconds(try arguments.integer(.pollInterval, 1...86_400) ?? 60)
        batchSize = try arguments.integer(.batchSize, 1...10_000) ?? 500
        (lanes, connections) = try Self.sizes(arguments, usualLanes: Self.usualLanes)
        grace = .seconds(try arguments.integer(.grace, 0...3_600) ?? 25)
        logger = try Self.logger(call.environment)
        environment = try PushSettings.defaultEnvironment(settings)
        let address = try WorkerAdmin.address(settings)
        http = once ? nil : address
        push = try PushSettings(call.environment)
        variables = call.environment
        for app in push.apps { _ = try app.trust.load() }
        let where_ = try call.databaseSettings()
        schema = where_.schema
        do throws(PostgresError) {
            database = try PostgresConfiguration(
                connectionString: where_.connectionString, applicationName: "pgpush worker")
            listenDatabase = try PostgresConfiguration(
                connectionString: where_.directConnectionString ?? where_.connectionString,
                applicationName: "pgpush listen")
        } catch {
            throw CommandFailure(error, schema: schema)
        }
    }

    /// Reads --lanes and --connections: together a process has 1 to 16 connections, and a lane without one could not send.
    static func sizes(
        _ arguments: Arguments, usualLanes: Int
    ) throws(UsageError) -> (lanes: Int, connections: Int) {
        let wanted = try arguments.integer(.connections, 1...16)
        guard let lanes = try arguments.integer(.lanes, 1...16) else {
            let connections = wanted ?? 4
            return (min(usualLanes, connections), connections)
        }
        let connections = wanted ?? max(4, lanes)
        guard lanes <= connections else {
            throw UsageError(
                "--lanes \(lanes) is more than --connections \(connections): each lane sends over connections of its own"
            )
        }
        return (lanes, connections)
    }

    private static var usualLanes: Int { min(4, max(1, sysconf(Int32(_SC_NPROCESSORS_ONLN)) / 2)) }

    private static func logger(_ environment: [String: String]) throws(ConfigurationError) -> Logger {
        do throws(LogSettingsError) {
            let settings = try LogSettings(environment: environment, prefix: "PGPUSH_")
            return Logger(label: "pgpush", output: .standardError(settings))
        } catch {
            throw ConfigurationError(
                variable: error.variable, problem: "is \"\(error.value.prefix(40))\"",
                remedy: "set it to one of \(error.allowed.joined(separator: ", ")), or leave it out")
        }
    }

    /// Waits for the database and checks it; a signal meanwhile ends the process, since nothing has been claimed.
    func checkDatabase() throws -> DatabaseFacts {
        let loop = try EventLoop(name: "start")
        try loop.start()
        defer {
            loop.stop()
            loop.join()
        }
        return try loop.runBlocking { _ in
            let watch = try SignalWatch(loop: loop, signals: [SIGTERM, SIGINT]) { number in
                _exit(number == SIGINT ? ExitCode.interrupted.rawValue : ExitCode.done.rawValue)
            }
            defer { watch.close() }
            // What the session would log, the check tells in one line.
            let session = PostgresSession(loop: loop, configuration: database, logger: .silent)
            defer { session.close() }
            return try await StartUp.check(session, schema: schema, logger: logger)
        }
    }

    /// Says what works but is probably not meant.
    func warn(_ facts: DatabaseFacts) {
        if let shell = ProcessOne.shell {
            logger.warning(
                "process 1 is a shell, from which SIGTERM will not come through: use the exec form, or 'exec pgpush worker'",
                [.shell: shell])
        }
        if let environment, environment.rawValue != facts.defaultEnvironment {
            logger.warning(
                "devices are registered for another environment by default than APNS_ENVIRONMENT says; run 'pgpush migrate'",
                [.found: facts.defaultEnvironment, .wanted: environment.rawValue])
        }
    }
}

extension LogKey {
    fileprivate static let shell = LogKey("process.shell")
    fileprivate static let found = LogKey("environment.found")
    fileprivate static let wanted = LogKey("environment.wanted")
}
