// What a worker says when it cannot start: one clear line, a hint, an exit code that tells configuration (4) from a database that
// is not there (5). No secret is in it.

import Foundation
import TLS
import TestSupport
import Testing

@Suite("A worker at its start") struct WorkerStart {
    /// Starts a worker with a changed environment and expects it to end with 4 and one line that holds all of `words`.
    private func refuses(
        _ change: [String: String], without absent: String? = nil, _ rig: Rig, saying words: [String],
        _ location: SourceLocation = #_sourceLocation
    ) async throws {
        var environment = rig.environment
        environment.merge(change) { $1 }
        if let absent { environment[absent] = nil }
        let worker = try WorkerProcess([], environment: environment)
        let code = try await worker.exitCode()
        #expect(code == 4, "\(worker.log)", sourceLocation: location)
        let lines = worker.log.split(separator: "\n")
        let errors = lines.filter { !$0.hasPrefix("  hint: ") }
        #expect(errors.count == 1 && lines.count <= 2, "\(worker.log)", sourceLocation: location)
        for word in words {
            #expect(worker.log.contains(word), "“\(word)” is not in: \(worker.log)", sourceLocation: location)
        }
        #expect(!worker.log.contains("s3cret"), sourceLocation: location)
        // Nor a line of any key.
        let secrets = change.values.filter { $0.contains("PRIVATE KEY") }.flatMap {
            $0.split(separator: "\n").filter { $0.count == 64 }
        }
        #expect(!secrets.contains { worker.log.contains($0) }, sourceLocation: location)
    }

    @Test("refuses an address for its metrics that is none, or taken; with --once it wants none")
    func metricsAddress() async throws {
        try await Rig.run { rig in
            for text in ["9464", "http://127.0.0.1:9464", "127.0.0.1:99999"] {
                try await refuses(["PGPUSH_HTTP": text], rig, saying: ["PGPUSH_HTTP", "host:port"])
            }
            let (first, pages) = try await Pages.worker(rig)
            let address = try #require(first.log.firstMatch(of: /127\.0\.0\.1:[0-9]+/)?.output)
            try await refuses(
                ["PGPUSH_HTTP": String(address)], rig,
                saying: ["PGPUSH_HTTP", "cannot be listened on", "Address already in use"])
            try await rig.drain(more: ["PGPUSH_HTTP": String(address)])
            let doctor = try rig.pgpush("doctor", more: ["PGPUSH_HTTP": "9464"])
            #expect(doctor.status == 4 && doctor.output.contains("PGPUSH_HTTP"), "\(doctor.output)")
            #expect(try pages.get("/healthz").status == 200)
            try await first.stop()
        }
    }

    @Test("refuses a key that is missing, unreadable, of the wrong kind, or nameless") func keys() async throws {
        try await Rig.run { rig in
            let folder = rig.simulator.folder
            func write(_ text: String, _ name: String) throws -> String {
                let path = "\(folder)/\(name)"
                try text.write(toFile: path, atomically: true, encoding: .utf8)
                return path
            }
            func key(_ arguments: String...) throws -> String { try Subprocess.require("/usr/bin/openssl", arguments) }

            try await refuses([:], without: "APNS_KEY_PATH", rig, saying: ["APNS_KEY_PATH", "is not set"])
            try await refuses(["APNS_KEY_PATH": "\(folder)/nowhere.p8"], rig, saying: ["\(folder)/nowhere.p8"])
            try await refuses(["APNS_KEY_PATH": folder], rig, saying: [folder])
            try await refuses(["APNS_KEY_PATH": try write("", "empty.p8")], rig, saying: ["APNS_KEY_PATH"])
            try await refuses(["APNS_KEY_PATH": try write("hello\n", "text.p8")], rig, saying: ["APNS_KEY_PATH"])
            let curve = try key("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-384")
            try await refuses(["APNS_KEY_PATH": try write(curve, "p384.p8")], rig, saying: ["384", "P-256"])
            let rsa = try key("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
            try await refuses(["APNS_KEY_PATH": try write(rsa, "rsa.p8")], rig, saying: ["RSA", "P-256"])
            try await refuses(["APNS_KEY": curve], without: "APNS_KEY_PATH", rig, saying: ["APNS_KEY", "P-256"])

            for name in ["APNS_KEY_ID", "APNS_TEAM_ID", "APNS_BUNDLE_ID"] {
                try await refuses([:], without: name, rig, saying: [name, "is not set"])
            }
            try await refuses(["APNS_KEY_ID": "SHORT"], rig, saying: ["APNS_KEY_ID", "10"])
            try await refuses(["APNS_CA_PATH": "\(folder)/no-ca.pem"], rig, saying: ["APNS_CA_PATH"])
        }
    }

    @Test("refuses a database that is not the right one") func databases() async throws {
        try await Rig.run { rig in
            let cluster = rig.database.cluster
            func url(_ database: String, _ user: String = PostgresCluster.user, _ password: String? = nil) -> [String:
                String]
            {
                ["DATABASE_URL": cluster.connectionString(database: database, user: user, password: password)]
            }
            let guarded = PostgresCluster.passwordUser
            try await refuses(url(rig.database.name, guarded, "s3cret"), rig, saying: ["password", guarded])
            try await refuses(url(rig.database.name, "nobody_here"), rig, saying: ["nobody_here"])
            try await refuses(url("no_such_database"), rig, saying: ["no_such_database"])
            try await refuses(["DATABASE_URL": "postgresql://[s3cret"], rig, saying: ["connection string"])
            try await refuses(["PGPUSH_SCHEMA": "elsewhere"], rig, saying: ["elsewhere", "pgpush migrate"])
            let empty = try cluster.createEmptyDatabase()
            try await refuses(url(empty.name), rig, saying: ["public", "pgpush migrate"])

            try rig.psql("INSERT INTO pgpush_migrations (version, name) VALUES (9999, 'm9999_future')")
            try await refuses(url(rig.database.name), rig, saying: ["9999", "newer pgpush"])
        }
    }

    @Test("takes the right password and shows it to nobody") func rightPassword() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            let url = rig.database.cluster.connectionString(
                database: rig.database.name, user: PostgresCluster.passwordUser, password: PostgresCluster.rightPassword
            )
            let worker = try rig.worker("--once", more: ["DATABASE_URL": url])
            #expect(try await worker.exitCode() == 0)
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
            #expect(!worker.log.contains(":\(PostgresCluster.rightPassword)@"))
        }
    }

    @Test("waits a minute for a database that is not there, and ends with 5") func unreachable() async throws {
        // Of a rig only the credentials are needed, and only at the start.
        let simulator = try await SimulatorProcess.start()
        var environment = simulator.environment
        let port = try FreePort.find()
        environment["DATABASE_URL"] = "postgresql://somebody:s3cret@127.0.0.1:\(port)/nowhere"
        let start = ContinuousClock.now
        let worker = try WorkerProcess([], environment: environment)
        try await worker.logs("waiting for the database")
        await simulator.stop()
        #expect(try await worker.exitCode() == 5)
        #expect(ContinuousClock.now - start > .seconds(55))
        #expect(worker.log.contains("127.0.0.1:\(port)") && !worker.log.contains("s3cret"))
    }

    @Test("takes up its work when the database appears meanwhile") func appears() async throws {
        let cluster = try PostgresCluster()
        defer { cluster.remove() }
        try await Rig.run(cluster: cluster) { rig in
            try rig.addDevices(1...1)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try cluster.stop()
            let worker = try rig.worker("--once")
            try await worker.logs("waiting for the database")
            try cluster.start()
            #expect(try await worker.exitCode() == 0)
            _ = try? rig.psql("SELECT")
            #expect(try rig.row(id) == NotificationRow("sent", 1, accepted: 1))
        }
    }

    @Test("ends at once on a signal while it waits for a database") func signalled() async throws {
        try await Rig.run { rig in
            let port = try FreePort.find()
            let worker = try rig.worker(more: ["DATABASE_URL": "postgresql://x@127.0.0.1:\(port)/nowhere"])
            try await worker.logs("waiting for the database")
            try await worker.stop()
        }
    }
}
