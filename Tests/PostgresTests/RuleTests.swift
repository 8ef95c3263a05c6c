// The pure rules: pipelines as transcripts, SQLSTATEs, delays, connection strings.

import Testing

@testable import Postgres

@Suite("Pipeline machine") struct PipelineMachineTests {
    private let plan = PipelineMachine.Plan(preamble: 4, body: 2, commits: true)

    /// A machine that has seen `count` statements succeed.
    private func machine(after count: Int, sent: Bool = true) -> PipelineMachine {
        var machine = PipelineMachine(plan)
        if sent { machine.lastStatementSent() }
        for index in 0..<count {
            _ = machine.succeeded(commandTag: index == plan.count - 1 ? "COMMIT" : "SELECT 1")
            _ = machine.ended()
        }
        return machine
    }

    private func refusal(_ state: String, _ severity: String = "ERROR") -> PostgresError {
        var error = PostgresError(.server, "refused")
        error.sqlState = state
        error.severity = severity
        return error
    }

    private let loss = PostgresError(.connectionLost, "gone")

    @Test("only the caller's statements give results")
    func results() {
        var machine = PipelineMachine(plan)
        machine.lastStatementSent()
        var kept: [Int] = []
        for index in 0..<plan.count {
            if machine.succeeded(commandTag: index == 6 ? "COMMIT" : "") { kept.append(index) }
            let isWithin = machine.ended()
            #expect(isWithin)
        }
        #expect(kept == [4, 5])
        let verdict = machine.synced(.idle)
        #expect(verdict == .succeeded)
        let isWithin = machine.ended()
        #expect(!isWithin)
    }

    @Test("a refused statement is counted from the caller's first")
    func refused() {
        var machine = machine(after: 5)
        machine.refused(refusal("23505"))
        _ = machine.ended()
        machine.refused(refusal("25P02"))
        guard case .mustRollBack(let error) = machine.synced(.failed) else { return #expect(Bool(false)) }
        #expect(error.sqlState == "23505" && error.statement == 1 && error.outcome == .notApplied)
        #expect(machine.lost(loss)?.sqlState == "23505")
    }

    @Test("a loss before COMMIT was sent is not applied, after it unknown, after its confirmation a success")
    func losses() {
        #expect(machine(after: 0, sent: false).lost(loss)?.outcome == .notApplied)
        #expect(machine(after: 0).lost(loss)?.outcome == .unknown)
        #expect(machine(after: 6).lost(loss)?.outcome == .unknown)
        #expect(machine(after: 7).lost(loss) == nil)
    }

    @Test("what ended the server decides whether it can have committed")
    func fatalErrors() {
        let cases: [(String, String, PostgresError.Outcome)] = [
            ("57P01", "FATAL", .notApplied), ("25P03", "FATAL", .notApplied), ("08P01", "FATAL", .unknown),
            ("53100", "PANIC", .unknown), ("", "", .unknown),
        ]
        for (state, severity, outcome) in cases {
            var machine = machine(after: 5)
            machine.refused(refusal(state, severity))
            #expect(machine.lost(loss)?.outcome == outcome, "\(state)")
        }
    }

    @Test("COMMIT answered with ROLLBACK, or a pipeline cut short, is no success")
    func falseSuccess() {
        var rolledBack = machine(after: 6)
        _ = rolledBack.succeeded(commandTag: "ROLLBACK")
        _ = rolledBack.ended()
        guard case .failed(let error) = rolledBack.synced(.idle) else { return #expect(Bool(false)) }
        #expect(error.code == .protocolViolation)
        var short = machine(after: 3)
        guard case .mustRollBack(let cut) = short.synced(.open) else { return #expect(Bool(false)) }
        #expect(cut.code == .protocolViolation && cut.outcome == .unknown)
    }
}

@Suite("Rules") struct RuleTests {
    @Test("reactions to SQLSTATEs")
    func reactions() {
        for state in [
            "57P01", "57P02", "57P03", "08006", "08P01", "25006", "40001", "40P01", "55P03", "53300", "53200", "57014",
        ] { #expect(SQLState.reaction(to: state) == .retry, "\(state)") }
        for state in ["42P01", "42501", "28P01", "3D000", "3F000", "XX000", "0A000"] {
            #expect(SQLState.reaction(to: state) == .alarm, "\(state)")
        }
        for state in ["22021", "22P02", "23505", "21000"] {
            #expect(SQLState.reaction(to: state) == .isolate, "\(state)")
        }
        for state in ["PN001", "P0001", ""] { #expect(SQLState.reaction(to: state) == .report, "\(state)") }
    }

    @Test("delays grow from 0.2 to 10 seconds with full jitter, and start anew after a good connection")
    func delays() {
        var policy = ReconnectPolicy()
        func next(_ random: Double) -> Duration { policy.nextDelay(random: random) }
        #expect(next(1) == .milliseconds(200))
        var longest: [Duration] = []
        for _ in 0..<10 { longest.append(next(1)) }
        #expect(longest.prefix(3) == [.milliseconds(400), .milliseconds(800), .milliseconds(1600)])
        #expect(longest.last == .seconds(10))
        for _ in 0..<100 { #expect(next(0) == .milliseconds(200)) }
        policy.proveGood()
        #expect(next(0.5) == .milliseconds(100))
        let slow = policy.nextDelay(needsPerson: true, random: 0)
        #expect(slow == .seconds(5))
    }

    @Test("connection strings: forms, several hosts, defaults")
    func strings() throws {
        let uri = try PostgresConfiguration(
            connectionString: "postgresql://me:s%40cret@a.example:5433,b.example:5434/mine?sslmode=require",
            applicationName: "pgpush")
        #expect(uri.targets.map(\.name) == ["a.example:5433", "b.example:5434"])
        #expect(uri.value("password") == "s@cret" && uri.value("sslmode") == "require")
        #expect(uri.value("target_session_attrs") == "read-write" && uri.value("application_name") == "pgpush")
        let keywords = try PostgresConfiguration(
            connectionString: "host=/run/postgresql,::1 port=5432 application_name=mine connect_timeout=3",
            applicationName: "pgpush", access: .any)
        #expect(keywords.targets.map(\.port) == ["5432", "5432"])
        #expect(keywords.targets.map(\.needsLookup) == [false, true])
        #expect(keywords.value("application_name") == "mine" && keywords.connectTimeout == .seconds(3))
        #expect(keywords.value("target_session_attrs") == "any")
    }

    @Test("a password shows neither in descriptions nor in errors")
    func secrets() throws {
        let configuration = try PostgresConfiguration(
            connectionString: "postgres://me:hunter2@host/db", applicationName: "pgpush")
        #expect(configuration.description == "host=host dbname=db user=me")
        var dumped = ""
        dump([configuration], to: &dumped)
        #expect(!dumped.contains("hunter2") && !String(reflecting: configuration).contains("hunter2"))
        for broken in [
            "postgres://me:hunter2@host:port/db", "password=hunter2 nonsense",
            "postgres://me:hun@ter2@host/db", "postgres://me:hun/ter2@host/db", "host=x password='hunter2",
            "postgres://me:hunter2%zz@host/db", "hunter2", "host=a,b hostaddr=127.0.0.1 password=hunter2",
            "host=a,b port=1,2,3", "connect_timeout=hunter2", "postgres://me@[hunter2/db", "hunter2=x",
        ] {
            let error = #expect(throws: PostgresError.self, "\(broken)") {
                try PostgresConfiguration(connectionString: broken, applicationName: "pgpush")
            }
            #expect(error?.code == .configuration && error?.reaction == .alarm)
            for piece in ["hunter2", "hun", "ter2"] {
                #expect(error?.description.contains(piece) == false, "\(broken)")
            }
        }
    }

    @Test("SQLSTATEs are found in libpq's messages")
    func failures() {
        let refused = ConnectFailure.error(
            message: """
                connection to server at "127.0.0.1", port 5432 failed: FATAL:  28P01: password authentication failed for user "x"
                LOCATION:  auth_failed, auth.c:335
                connection to server at "127.0.0.1", port 5432 failed: FATAL:  3D000: Datenbank »y« existiert nicht
                """, needsPassword: false, target: "db")
        #expect(refused.code == .unknownDatabase && refused.message == "db: Datenbank »y« existiert nicht")
        let starting = ConnectFailure.error(
            message: "connection to server failed: FATAL:  57P03: the database system is starting up",
            needsPassword: false,
            target: "db")
        #expect(starting.code == .unreachable && starting.sqlState == "57P03" && starting.reaction == .retry)
        let silent = ConnectFailure.error(message: "", needsPassword: false, target: "db")
        #expect(silent.code == .unreachable)
        let odd = ConnectFailure.error(message: ":  ÄÄÄÄ: ", needsPassword: true, target: "db")
        #expect(odd.code == .authentication)
    }

    @Test("identifiers are quoted whatever they hold")
    func identifiers() {
        #expect(PostgresListener.quoted("pgpush") == "\"pgpush\"")
        #expect(PostgresListener.quoted("a\"b\0c") == "\"a\"\"bc\"")
    }

    @Test("arrays that lie about themselves are refused")
    func crookedArrays() {
        func reader(_ words: [UInt32], cut: Int = 0) -> PostgresArrayReader? {
            let bytes = words.flatMap { word in (0..<4).map { UInt8(truncatingIfNeeded: word >> (24 - 8 * UInt32($0))) }
            }
            // The reader borrows, so the bytes have to stay.
            let copy = UnsafeMutableRawBufferPointer.allocate(byteCount: bytes.count - cut, alignment: 8)
            copy.copyBytes(from: bytes.dropLast(cut))
            return PostgresArrayReader(UnsafeRawBufferPointer(copy))
        }
        #expect(reader([1, 0, 20]) == nil)
        #expect(reader([2, 0, 20, 1, 1, 1, 1]) == nil)
        #expect(reader([1, 0, 20, 1000, 1]) == nil)
        #expect(reader([1, 0, 20, 0xffff_ffff, 1]) == nil)
        #expect(reader([0, 0, 20], cut: 1) == nil)
        var cut = reader([1, 0, 20, 1, 1, 8, 0, 0], cut: 4)
        #expect(throws: PostgresError.self) { _ = try cut?.next() }
        var negative = reader([1, 0, 20, 1, 1, 0xffff_ffff])
        #expect(throws: PostgresError.self) { _ = try negative?.next() }
        #expect(reader([0, 0, 20])?.count == 0)
    }
}
