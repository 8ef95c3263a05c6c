// F26: everything works through pgbouncer in transaction mode.

import Reactor
import Telemetry
import TestSupport
import Testing

@testable import Postgres

@Suite("Through pgbouncer in transaction mode") struct PoolerTests {
    @Test("F26: four sessions share two server connections that are wiped after each transaction")
    func shared() async throws {
        let cluster = try PostgresCluster.shared()
        let pooler = try Pooler(to: cluster)
        defer { pooler.stop() }
        try cluster.execute("CREATE TABLE pooled (worker int, n int, limits text)")
        let configuration = try PostgresConfiguration(connectionString: pooler.address, applicationName: "pooled")
        try await onLoop { actor in
            let sessions = (0..<4).map { _ in
                PostgresSession(loop: actor.loop, configuration: configuration, logger: .silent)
            }
            defer { for session in sessions { session.close() } }
            let answers = Collector()
            for round in 0..<25 {
                for (worker, session) in sessions.enumerated() {
                    let limits = PostgresLimits(statement: .seconds(worker + 1), lock: .seconds(1))
                    let insert = PostgresStatement(
                        """
                        INSERT INTO pooled VALUES ($1, $2, current_setting('statement_timeout'))
                        RETURNING 1::int8
                        """, [Int32(worker), Int32(round)])
                    let call = PostgresCall(.transaction([insert], limits)) { answers.add(worker, $0) }
                    session.submit(call, timeout: .seconds(60))
                }
            }
            while answers.numbers.count < 100 { await pause(.milliseconds(5), on: actor.loop) }
            #expect(answers.errors.isEmpty)
            // Each transaction had its own limits, whoever used the server's connection before.
            let rows = try await sessions[0].query(
                PostgresStatement("SELECT worker, limits, count(*)::int FROM pooled GROUP BY 1, 2 ORDER BY 1"))
            #expect(rows.rows == 4)
            for row in 0..<rows.rows {
                let worker = try rows.int(row, 0)
                #expect(try rows.string(row, 1) == "\(worker + 1)s")
                #expect(try rows.int(row, 2) == 25)
            }
            let settings = try await sessions[0].simple("SHOW statement_timeout", timeout: .seconds(60))
            #expect(try settings[0].string(0, 0) == "0")
        }
    }

    @Test("a refused statement, a terminated server connection and a restarted pooler are survived")
    func faults() async throws {
        let cluster = try PostgresCluster.shared()
        let pooler = try Pooler(to: cluster, pool: 1)
        defer { pooler.stop() }
        try await withSession(pooler.address) { session, _ in
            let refused = await failure { () throws(PostgresError) in
                try await session.transaction([
                    PostgresStatement("CREATE TABLE gone (id int)"), PostgresStatement("SELECT 1 / $1", [Int32(0)]),
                ])
            }
            #expect(refused.sqlState == "22012" && refused.outcome == .notApplied)
            let there = try await session.query(PostgresStatement("SELECT to_regclass('gone') IS NULL"))
            #expect(try there.bool(0, 0))
            #expect(session.connectionCount == 1)
            // The only server connection dies in the middle of a transaction.
            let suicide = await failure { () throws(PostgresError) in
                try await session.transaction([
                    PostgresStatement("SELECT pg_terminate_backend(pg_backend_pid())"), PostgresStatement("SELECT 1"),
                ])
            }
            #expect(suicide.code == .connectionLost && suicide.reaction == .retry)
            let next = try await session.query(PostgresStatement("SELECT 1"))
            #expect(next.rows == 1)
        }
    }

    @Test("what the pooler refuses has the same codes")
    func refusals() async throws {
        let cluster = try PostgresCluster.shared()
        let pooler = try Pooler(to: cluster)
        defer { pooler.stop() }
        func open(_ address: String) async throws -> PostgresError? {
            let configuration = try PostgresConfiguration(connectionString: address, applicationName: "tests")
            return try await onLoop { actor in
                do throws(PostgresError) {
                    try await PostgresConnection.open(
                        loop: actor.loop, configuration: configuration, logger: .silent
                    ).close()
                    return nil
                } catch {
                    return error
                }
            }
        }
        let none = try await open(pooler.address)
        #expect(none == nil, "\(String(describing: none)) \(pooler.log)")
        let wrong = try await open(pooler.address.replacing("pooled", with: "wrong"))
        #expect(wrong?.code == .authentication, "\(String(describing: wrong))")
        let unknown = try await open(pooler.address.replacing("dbname=postgres", with: "dbname=nowhere"))
        #expect(unknown?.code == .unknownDatabase, "\(String(describing: unknown))")
    }
}
