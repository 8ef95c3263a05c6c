// One transaction, one pipeline: errors, time limits, and what the session is good for afterwards.

import Reactor
import Telemetry
import TestSupport
import Testing

@testable import Postgres

@Suite("Transactions") struct TransactionTests {
    @Test("several statements are one transaction and give one result each")
    func several() async throws {
        try await withSession { session, _ in
            let results = try await session.transaction([
                PostgresStatement("CREATE TEMP TABLE t (id int8 PRIMARY KEY, name text) ON COMMIT DROP"),
                PostgresStatement("INSERT INTO t SELECT n, 'n' || n FROM generate_series(1, $1) AS n", [Int64(3)]),
                PostgresStatement("SELECT id, name FROM t ORDER BY id"),
                PostgresStatement("SELECT txid_current() = txid_current(), current_setting('statement_timeout')"),
            ])
            #expect(results.count == 4)
            #expect(results[1].affected == 3)
            #expect(results[1].commandTag == "INSERT 0 3")
            #expect(results[2].rows == 3)
            #expect(try results[2].string(2, 1) == "n3")
            #expect(try results[3].string(0, 1) == "15s")
            #expect(try await session.transaction([]).isEmpty)
        }
    }

    @Test("the time limits end with the transaction, whatever the role has")
    func limits() async throws {
        try await withSession { session, _ in
            let settings = """
                SELECT current_setting('statement_timeout'), current_setting('lock_timeout'),
                       current_setting('idle_in_transaction_session_timeout'), current_setting('application_name'),
                       current_setting('client_encoding')
                """
            let within = try await session.query(
                PostgresStatement(settings), statementTimeout: .milliseconds(1500), lockTimeout: .zero)
            #expect(try within.string(0, 0) == "1500ms")
            // 0 would mean no limit at all.
            #expect(try within.string(0, 1) == "1ms")
            #expect(try within.string(0, 2) == "10s")
            #expect(try within.string(0, 3) == "tests")
            #expect(try within.string(0, 4) == "UTF8")
            let after = try await session.simple("SHOW statement_timeout; SHOW lock_timeout", timeout: .seconds(60))
            #expect(try after.map { result in try result.string(0, 0) } == ["0", "0"])
        }
    }

    @Test("F27: a role's own time limits do not count within a transaction")
    func roleLimits() async throws {
        let database = try sharedDatabase()
        try database.psql(
            """
            CREATE ROLE hurried LOGIN;
            ALTER ROLE hurried SET statement_timeout = '100ms';
            ALTER ROLE hurried SET idle_in_transaction_session_timeout = '1ms';
            ALTER ROLE hurried SET lock_timeout = '1ms'
            """)
        let address = database.cluster.connectionString(database: database.name, user: "hurried")
        try await withSession(address) { session, _ in
            let results = try await session.transaction([
                PostgresStatement("SELECT pg_sleep(0.4)"), PostgresStatement("SELECT pg_sleep(0.1)"),
            ])
            #expect(results.count == 2)
            #expect(session.connectionCount == 1)
        }
    }

    @Test("what tells how long ago something was is made when it is sent, and twice only if it has waited")
    func madeWhenSent() async throws {
        try await withSession { session, _ in
            try await session.connect(timeout: .seconds(60))
            var made = 0
            let make = {
                made += 1
                return [PostgresStatement("SELECT \(made)::int4")]
            }
            #expect(try await session.transaction(making: make)[0].int32(0, 0) == 1 && made == 1)
            // Behind a call that is under way it waits for its turn.
            session.submit(PostgresCall(.script("SELECT pg_sleep(0.1)")) { _ in }, timeout: .seconds(60))
            #expect(session.queued == 0)
            #expect(try await session.transaction(making: make)[0].int32(0, 0) == 3)
        }
    }

    @Test("a refused statement rolls everything back and the session goes on")
    func rollback() async throws {
        try await withSession { session, _ in
            _ = try await session.simple("CREATE TABLE rollback_test (id int PRIMARY KEY)", timeout: .seconds(60))
            let error = await failure { () throws(PostgresError) in
                try await session.transaction([
                    PostgresStatement("INSERT INTO rollback_test VALUES (1)"),
                    PostgresStatement("INSERT INTO rollback_test VALUES (1)"),
                    PostgresStatement("INSERT INTO rollback_test VALUES (2)"),
                ])
            }
            #expect(error.code == .server && error.sqlState == "23505" && error.statement == 1)
            #expect(error.constraint == "rollback_test_pkey" && error.table == "rollback_test")
            #expect(error.detail.contains("already exists") && !error.description.contains("already exists"))
            #expect(error.outcome == .notApplied && error.reaction == .isolate)
            let count = try await session.query(PostgresStatement("SELECT count(*) FROM rollback_test"))
            #expect(try count.int(0, 0) == 0)
            #expect(session.connectionCount == 1)
        }
    }

    @Test("an error that comes with COMMIT is not a success")
    func deferred() async throws {
        try await withSession { session, _ in
            _ = try await session.simple(
                "CREATE TABLE deferred_test (id int UNIQUE DEFERRABLE INITIALLY DEFERRED)", timeout: .seconds(60))
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("INSERT INTO deferred_test VALUES (1), (1)"))
            }
            #expect(error.sqlState == "23505" && error.statement == nil && error.outcome == .notApplied)
            let count = try await session.query(PostgresStatement("SELECT count(*) FROM deferred_test"))
            #expect(try count.int(0, 0) == 0)
        }
    }

    @Test("errors carry what the server says, hint and custom SQLSTATE")
    func fields() async throws {
        try await withSession { session, _ in
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT 1 / $1", [Int32(0)]))
            }
            #expect(error.sqlState == "22012" && error.message == "division by zero" && error.severity == "ERROR")
            let raised = await failure { () throws(PostgresError) in
                try await session.query(
                    PostgresStatement(
                        """
                        DO $$ BEGIN RAISE EXCEPTION 'no such device' USING ERRCODE = 'PP001', HINT = 'register it',
                        COLUMN = 'device_token'; END $$
                        """))
            }
            #expect(raised.sqlState == "PP001" && raised.hint == "register it" && raised.column == "device_token")
            #expect(raised.reaction == .report)
            let syntax = await failure { () throws(PostgresError) in try await session.query(PostgresStatement("SELEC"))
            }
            #expect(syntax.sqlState == "42601" && syntax.reaction == .alarm)
        }
    }

    @Test("the server ends a statement that takes too long, for each statement anew")
    func statementTimeout() async throws {
        try await withSession { session, _ in
            let start = MonotonicTime.now()
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT pg_sleep(20)"), statementTimeout: .milliseconds(200))
            }
            #expect(error.sqlState == "57014" && error.code == .server && error.outcome == .notApplied)
            #expect(error.reaction == .retry)
            #expect(start.elapsedMilliseconds < 15_000)
            let results = try await session.transaction(
                [PostgresStatement("SELECT pg_sleep(3)"), PostgresStatement("SELECT pg_sleep(3)")],
                statementTimeout: .seconds(5))
            #expect(results.count == 2)
            #expect(session.connectionCount == 1)
        }
    }

    @Test("the server ends the wait for a lock")
    func lockTimeout() async throws {
        try await withSession { session, actor in
            _ = try await session.simple("CREATE TABLE lock_test (id int)", timeout: .seconds(60))
            let address = try sharedAddress()
            let configuration = try PostgresConfiguration(connectionString: address, applicationName: "holder")
            let holder = try await PostgresConnection.open(
                loop: actor.loop, configuration: configuration, logger: .silent)
            defer { holder.close() }
            try await holder.simple("BEGIN; LOCK TABLE lock_test", timeout: .seconds(60))
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT * FROM lock_test"), lockTimeout: .milliseconds(100))
            }
            #expect(error.sqlState == "55P03" && error.reaction == .retry && error.outcome == .notApplied)
            try await holder.simple("ROLLBACK", timeout: .seconds(60))
            #expect(try await session.query(PostgresStatement("SELECT * FROM lock_test")).rows == 0)
        }
    }

    @Test("calls wait in line, each gets its own answer, and the line is bounded")
    func queue() async throws {
        try await withSession(queueLimit: 3) { session, actor in
            try await session.connect(timeout: .seconds(60))
            let answers = Collector()
            for number in 1...5 {
                let statement = PostgresStatement("SELECT $1, pg_sleep(0.05)", [Int64(number)])
                let call = PostgresCall(
                    .transaction([statement], PostgresLimits(statement: .seconds(5), lock: .seconds(1)))
                ) {
                    answers.add(number, $0)
                }
                session.submit(call, timeout: .seconds(60))
            }
            // One is on the wire, three wait, the fifth is one too many.
            #expect(answers.numbers == [5])
            #expect(answers.errors[5]?.code == .overloaded && answers.errors[5]?.reaction == .retry)
            let last = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT 1"))
            }
            #expect(last.code == .overloaded)
            while answers.numbers.count < 5 { await pause(.milliseconds(10), on: actor.loop) }
            #expect(answers.numbers == [5, 1, 2, 3, 4])
            #expect(answers.values == [1, 2, 3, 4])
        }
    }

    @Test("calls resume on their loop, without a detour through another thread")
    func staysOnLoop() async throws {
        try await withSession { session, actor in
            _ = try await session.query(PostgresStatement("SELECT 1"))
            let before = actor.loop.foreignEnqueues
            for _ in 0..<200 { _ = try await session.query(PostgresStatement("SELECT 1")) }
            #expect(actor.loop.foreignEnqueues == before)
        }
    }

    @Test("a script runs several statements, and one that it leaves open is rolled back")
    func scripts() async throws {
        try await withSession { session, _ in
            let results = try await session.simple(
                "CREATE TEMP TABLE s (a int); INSERT INTO s VALUES (1), (2); SELECT sum(a) FROM s",
                timeout: .seconds(60)
            )
            #expect(results.count == 3)
            #expect(try results[2].string(0, 0) == "3")
            #expect(throws: PostgresError.self) { try results[2].int64(0, 0) }
            let error = await failure { () throws(PostgresError) in
                try await session.simple("INSERT INTO s VALUES (3); SELECT nonsense; SELECT 1", timeout: .seconds(60))
            }
            #expect(error.sqlState == "42703")
            let count = try await session.query(PostgresStatement("SELECT count(*) FROM s"))
            #expect(try count.int(0, 0) == 2)
            try await session.simple("BEGIN; INSERT INTO s VALUES (9)", timeout: .seconds(60))
            let after = try await session.query(PostgresStatement("SELECT count(*) FROM s"))
            #expect(try after.int(0, 0) == 2)
            let failed = await failure { () throws(PostgresError) in
                try await session.simple("BEGIN; DELETE FROM s; SELECT nonsense; COMMIT", timeout: .seconds(60))
            }
            #expect(failed.sqlState == "42703")
            #expect(try await session.query(PostgresStatement("SELECT 1")).rows == 1)
            #expect(session.connectionCount == 1)
        }
    }

    @Test("COPY is refused instead of hanging")
    func copy() async throws {
        try await withSession { session, _ in
            let error = await failure { () throws(PostgresError) in
                try await session.simple("COPY (SELECT 1) TO STDOUT", timeout: .seconds(60))
            }
            #expect(error.code == .protocolViolation)
            let pipelined = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("COPY pg_class TO STDOUT"))
            }
            #expect(pipelined.code == .protocolViolation)
            let next = try await session.query(PostgresStatement("SELECT 1"))
            #expect(next.rows == 1)
        }
    }

    @Test("large statements and large results pass through a full socket")
    func large() async throws {
        try await withSession { session, _ in
            var ids = PostgresArrayBuilder(.int8)
            for id in 0..<500_000 { ids.append(Int64(id)) }
            var parameters = PostgresParameters()
            parameters.add(ids)
            let results = try await session.transaction([
                PostgresStatement("SELECT $1", parameters), PostgresStatement("SELECT cardinality($1)", parameters),
                PostgresStatement("SELECT repeat('x', 20000000)"),
            ])
            #expect(try results[0].int64Array(0, 0).count == 500_000)
            #expect(try results[1].int(0, 0) == 500_000)
            #expect(try results[2].utf8(0, 0)?.count == 20_000_000)
        }
    }

    @Test("a transaction may span several calls on a connection of one's own")
    func spanning() async throws {
        let configuration = try PostgresConfiguration(
            connectionString: sharedAddress(), applicationName: "tests")
        try await onLoop { actor in
            let connection = try await PostgresConnection.open(
                loop: actor.loop, configuration: configuration, logger: .silent)
            defer { connection.close() }
            try await connection.simple("BEGIN; CREATE TABLE spanning (id int)", timeout: .seconds(60))
            #expect(connection.isInTransaction)
            let values = try await connection.pipeline(
                [PostgresStatement("INSERT INTO spanning VALUES ($1) RETURNING id", [Int32(7)])], timeout: .seconds(60))
            #expect(try values[0].int(0, 0) == 7)
            let error = await failure { () throws(PostgresError) in
                try await connection.pipeline([PostgresStatement("SELECT nonsense")], timeout: .seconds(60))
            }
            #expect(error.sqlState == "42703" && connection.isInTransaction)
            try await connection.simple("ROLLBACK", timeout: .seconds(60))
            #expect(!connection.isInTransaction)
            let gone = try await connection.query(PostgresStatement("SELECT to_regclass('spanning') IS NULL"))
            #expect(try gone.bool(0, 0))
            #expect(connection.parameter("server_encoding") == "UTF8")
        }
    }
}

/// Answers in the order in which they came; touched on one loop only.
final class Collector {
    private(set) var numbers: [Int] = []
    private(set) var values: [Int64] = []
    private(set) var errors: [Int: PostgresError] = [:]

    func add(_ number: Int, _ result: Result<[PostgresResult], PostgresError>) {
        numbers.append(number)
        do {
            values.append(try result.get()[0].int64(0, 0))
        } catch {
            errors[number] = error
        }
    }
}
