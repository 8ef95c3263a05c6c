// Servers that hang, restart, refuse or vanish, and what callers are told. Each of these servers belongs to its test.

import Foundation
import Reactor
import Telemetry
import TestSupport
import Testing

@testable import Postgres

@Suite("Faults of the connection") struct FaultTests {
    @Test("the next call after pg_terminate_backend works, the one under way says what happened")
    func terminated() async throws {
        try await withSession { session, actor in
            let database = try sharedDatabase()
            let pid = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int32(0, 0)
            // In the middle of a call.
            async let ended: Void = killAsleep(pid, database)
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT pg_sleep(10)"))
            }
            await ended
            #expect(error.code == .connectionLost && error.sqlState == "57P01" && error.reaction == .retry)
            // The server spoke before COMMIT was its turn.
            #expect(error.outcome == .notApplied)
            #expect(!session.isConnected)
            let again = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int32(0, 0)
            #expect(again != pid)
            #expect(session.isConnected && session.connectionCount == 2)
            // And while the connection is idle.
            _ = try database.psql("SELECT pg_terminate_backend(\(again))")
            while session.isConnected { await pause(.milliseconds(5), on: actor.loop) }
            #expect(session.lastError?.sqlState == "57P01")
            #expect(try await session.query(PostgresStatement("SELECT 1")).rows == 1)
            #expect(session.connectionCount == 3)
        }
    }

    @Test("a session says when its server answers, by a refusal too, and when it was lost, used or not")
    func contact() async throws {
        try await withSession { session, actor in
            var heard: [PostgresContact] = []
            session.onContact = { heard.append($0) }
            let pid = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int32(0, 0)
            #expect(heard == [.answered])
            _ = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT 1 / 0"))
            }
            #expect(heard == [.answered, .answered])
            _ = try sharedDatabase().psql("SELECT pg_terminate_backend(\(pid))")
            while heard.count < 3 { await pause(.milliseconds(5), on: actor.loop) }
            #expect(heard.last == .lost)
            _ = try await session.query(PostgresStatement("SELECT 1"))
            #expect(heard == [.answered, .answered, .lost, .answered])
            // Frozen: the call finds no answer.
            _ = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT pg_sleep(60)"), timeout: .milliseconds(300))
            }
            #expect(heard.last == .lost)
        }
    }

    @Test("F25: a restart, fast or immediate, costs one call at most", arguments: [true, false])
    func restarted(isFast: Bool) async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await withSession(cluster.address) { session, actor in
            #expect(try await session.query(PostgresStatement("SELECT 1")).rows == 1)
            try cluster.stop(isFast ? .fast : .immediate)
            let down = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT 1"), timeout: .milliseconds(700))
            }
            #expect(down.code == .unreachable && down.outcome == .notApplied && down.reaction == .retry)
            #expect(!session.isConnected && session.lastError != nil)
            try cluster.start()
            let back = MonotonicTime.now()
            #expect(try await session.query(PostgresStatement("SELECT 1")).rows == 1)
            #expect(back.elapsedMilliseconds < 60_000)
            #expect(session.connectionCount == 2)
        }
    }

    @Test("a frozen server costs the call its deadline, then a thawed one is used again")
    func frozen() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await withSession(cluster.address) { session, actor in
            let pid = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int32(0, 0)
            kill(pid, SIGSTOP)
            let start = MonotonicTime.now()
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT 1"), timeout: .milliseconds(300))
            }
            #expect(error.code == .deadline && error.outcome == .unknown && error.reaction == .retry)
            #expect(start.elapsedMilliseconds < 60_000)
            // Another process of the server answers the new connection.
            #expect(try await session.query(PostgresStatement("SELECT 1")).rows == 1)
            kill(pid, SIGCONT)
            // A call that waited behind the frozen one was never sent.
            let next = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int32(0, 0)
            kill(next, SIGSTOP)
            defer { kill(next, SIGCONT) }
            let waiting = Collector()
            for (number, milliseconds) in [(1, 600), (2, 200)] {
                let call = PostgresCall(
                    .transaction(
                        [PostgresStatement("SELECT 1")], PostgresLimits(statement: .seconds(1), lock: .seconds(1)))
                ) { waiting.add(number, $0) }
                session.submit(call, timeout: .milliseconds(milliseconds))
            }
            while waiting.numbers.count < 2 { await pause(.milliseconds(10), on: actor.loop) }
            #expect(waiting.numbers == [2, 1])
            #expect(waiting.errors[2]?.code == .deadline && waiting.errors[2]?.outcome == .notApplied)
            #expect(waiting.errors[1]?.code == .deadline && waiting.errors[1]?.outcome == .unknown)
        }
    }

    @Test("a host that accepts and never answers is given up in time")
    func blackHole() async throws {
        let hole = try PlainListener(.silent)
        defer { hole.close() }
        let configuration = try PostgresConfiguration(
            connectionString: "host=127.0.0.1 port=\(hole.port) user=x dbname=y", applicationName: "tests",
            connectTimeout: .milliseconds(400))
        try await onLoop { actor in
            let start = MonotonicTime.now()
            let error = await failure { () throws(PostgresError) in
                _ = try await PostgresConnection.open(
                    loop: actor.loop, configuration: configuration, logger: .silent, timeout: .seconds(60))
            }
            #expect(error.code == .unreachable && error.message.contains("400 ms"))
            #expect(start.elapsedMilliseconds >= 400)
            let patient = try PostgresConfiguration(
                connectionString: "host=127.0.0.1 port=\(hole.port) user=x dbname=y", applicationName: "tests",
                connectTimeout: .seconds(60))
            let soon = MonotonicTime.now()
            let bound = await failure { () throws(PostgresError) in
                _ = try await PostgresConnection.open(
                    loop: actor.loop, configuration: patient, logger: .silent, timeout: .milliseconds(100))
            }
            #expect(bound.code == .unreachable)
            #expect(soon.elapsedMilliseconds < 50_000)
        }
    }

    @Test("COMMIT that may have arrived is unknown, whether it was carried out or not")
    func unknownCommit() async throws {
        let database = try sharedDatabase()
        try database.psql("CREATE TABLE unknown_commit (id int)")
        let proxy = try TCPProxy(to: database.cluster.port)
        defer { proxy.close() }
        let address = "host=127.0.0.1 port=\(proxy.port) user=postgres dbname=\(database.name) sslmode=disable"
        try await withSession(address) { session, _ in
            try await session.connect(timeout: .seconds(60))
            let faults: [TCPProxy.Trap.Action] = [.cut, .cutAfterAnswer(ending: TCPProxy.Trap.postgresAnswer)]
            for (id, fault) in zip(1..., faults) {
                proxy.set(TCPProxy.Trap(on: "COMMIT", fault))
                let error = await failure { () throws(PostgresError) in
                    try await session.query(
                        PostgresStatement("INSERT INTO unknown_commit VALUES ($1)", [Int32(id)]), timeout: .seconds(60))
                }
                #expect(error.code == .connectionLost && error.outcome == .unknown)
                #expect(error.description.contains("not known"))
                proxy.set(nil)
                let rows = try await session.query(PostgresStatement("SELECT id FROM unknown_commit ORDER BY id"))
                #expect(rows.rows == id - 1)
            }
        }
    }

    @Test("a wait for a connection sends nothing, breaks nothing, and tells why an attempt failed")
    func waiting() async throws {
        try await withSession { session, actor in
            // Many waits give up before the connection is there; none of them takes it along.
            while !session.isConnected {
                do throws(PostgresError) { try await session.attempt(timeout: .milliseconds(1)) } catch {
                    #expect(error.code == .unreachable)
                }
            }
            for _ in 0..<100 { try await session.connect(timeout: .zero) }
            #expect(session.connectionCount == 1 && session.lastError == nil)
            session.close()
            let error = await failure { () throws(PostgresError) in try await session.connect(timeout: .seconds(60)) }
            #expect(error.code == .closed)
        }
        let hole = try PlainListener(.silent)
        defer { hole.close() }
        try await withSession("host=127.0.0.1 port=\(hole.port) user=x dbname=x", timeout: .milliseconds(300)) {
            session, actor in
            let first = await failure { () throws(PostgresError) in try await session.attempt(timeout: .seconds(10)) }
            #expect(first.message.contains("no answer within 300 ms"))
            let start = MonotonicTime.now()
            let last = await failure { () throws(PostgresError) in try await session.connect(timeout: .seconds(1)) }
            #expect(last.code == .unreachable && start.elapsedMilliseconds >= 990)
            actor.loop.schedule(after: .milliseconds(50)) { session.close() }
            let end = await failure { () throws(PostgresError) in try await session.connect(timeout: .seconds(30)) }
            #expect(end.code == .closed)
        }
    }

    @Test("a session that is closed ends every call, and makes no connection any more")
    func closed() async throws {
        try await withSession { session, actor in
            try await session.connect(timeout: .seconds(60))
            let answers = Collector()
            for number in 1...3 {
                let call = PostgresCall(.pipeline([PostgresStatement("SELECT pg_sleep(5)")])) {
                    answers.add(number, $0)
                }
                session.submit(call, timeout: .seconds(10))
            }
            session.close()
            #expect(answers.numbers == [1, 2, 3])
            #expect(answers.errors.values.allSatisfy { $0.code == .closed })
            #expect(answers.errors[1]?.outcome == .unknown && answers.errors[2]?.outcome == .notApplied)
            let error = await failure { () throws(PostgresError) in
                try await session.query(PostgresStatement("SELECT 1"))
            }
            #expect(error.code == .closed)
        }
    }

    @Test("a server that became read-only is left for one that takes writes")
    func readOnly() async throws {
        let old = try PostgresCluster()
        let new = try PostgresCluster()
        defer {
            old.remove()
            new.remove()
        }
        let address = "host=127.0.0.1,127.0.0.1 port=\(old.port),\(new.port) user=postgres dbname=postgres"
        try await withSession(address) { session, _ in
            let port = PostgresStatement("SELECT current_setting('port')::int")
            #expect(try await session.query(port).int(0, 0) == old.port)
            try old.alterSystem("SET default_transaction_read_only = on")
            while try old.execute("SHOW default_transaction_read_only").first?.first != "on" {}
            let error = await failure { () throws(PostgresError) in
                while true {
                    _ = try await session.query(PostgresStatement("CREATE TABLE IF NOT EXISTS moved (id int)"))
                }
            }
            #expect(error.code == .readOnly && error.sqlState == "25006" && error.outcome == .notApplied)
            #expect(error.reaction == .retry)
            #expect(try await session.query(port).int(0, 0) == new.port)
            // The first is made writable again and the second becomes a standby.
            try old.alterSystem("RESET default_transaction_read_only")
            try new.stop(.immediate)
            try new.becomeStandby()
            #expect(try await session.query(port).int(0, 0) == old.port)
            // Then the standby is promoted and the first is gone.
            try old.stop(.fast)
            try new.execute("SELECT pg_promote()")
            #expect(try await session.query(port).int(0, 0) == new.port)
        }
    }

    @Test("F35: a thousand calls and fifty reconnections leave no socket behind")
    func sockets() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        let port = cluster.port
        try await withSession(cluster.address) { session, actor in
            for number in 0..<1000 {
                let value = try await session.query(PostgresStatement("SELECT $1", [Int64(number)]))
                #expect(try value.int(0, 0) == number)
            }
            #expect(try openSockets(to: port) == 1)
            for _ in 0..<50 {
                let pid = try await session.query(PostgresStatement("SELECT pg_backend_pid()")).int(0, 0)
                try cluster.execute("SELECT pg_terminate_backend(\(pid))")
                while session.isConnected { await pause(.milliseconds(1), on: actor.loop) }
                try await session.connect(timeout: .seconds(60))
            }
            #expect(session.connectionCount == 51)
            #expect(try openSockets(to: port) == 1)
            session.close()
            #expect(try openSockets(to: port) == 0)
        }
    }
}

/// Ends a backend from outside once it sleeps in the middle of a call; at the latest after a minute.
private func killAsleep(_ pid: Int32, _ database: TestDatabase) async {
    let asleep = "SELECT count(*) FROM pg_stat_activity WHERE pid = \(pid) AND wait_event = 'PgSleep'"
    for _ in 0..<3000 {
        if (try? database.number(asleep)) == 1 { break }
        try? await Task.sleep(for: .milliseconds(20))
    }
    _ = try? database.psql("SELECT pg_terminate_backend(\(pid))")
}

/// How many sockets that somebody holds open lead to a port of 127.0.0.1 (`/proc/net/tcp`).
private func openSockets(to port: Int) throws -> Int {
    let remote = ":" + String(format: "%04X", port)
    return try Subprocess.require("/bin/cat", ["/proc/net/tcp"]).split(separator: "\n").count { line in
        let fields = line.split(separator: " ", omittingEmptySubsequences: true)
        return fields.count > 9 && fields[2].hasSuffix(remote) && fields[9] != "0"
    }
}
