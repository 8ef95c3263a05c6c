// What goes wrong is seen in /metrics and /readyz while it lasts, and /healthz is not concerned.

import Foundation
import TLS
import TestSupport
import Testing

@Suite("In /metrics and /readyz one sees") struct MetricsEvents {
    @Test("an operator's pause, and that nobody is to be woken for it; what is due grows older")
    func operatorsPause() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...1)
            let (worker, pages) = try await Pages.worker(rig)
            try rig.psql("SELECT pause_app('default', reason => 'user 4711 has complained')")
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            let paused = try await pages.eventually { scrape in
                scrape["pgpush_queue_due_notifications{app=\"default\"}"] == 1
                    && scrape["pgpush_queue_oldest_due_seconds{app=\"default\"}"] ?? 0 > 0
            }
            #expect(
                paused.series("pgpush_paused_scopes")
                    == [
                        "pgpush_paused_scopes{app=\"default\",environment=\"all\",by=\"operator\",reason=\"Operator\"}":
                            1
                    ])
            let first = try #require(paused["pgpush_queue_oldest_due_seconds{app=\"default\"}"])
            try await pages.eventually { $0["pgpush_queue_oldest_due_seconds{app=\"default\"}"] ?? 0 > first }
            #expect(try pages.get("/readyz").status == 200)
            try rig.psql("SELECT resume_app('default')")
            try await rig.status(of: id, is: "sent")
            try await pages.eventually { scrape in
                scrape.series("pgpush_paused_scopes").isEmpty
                    && scrape["pgpush_queue_due_notifications{app=\"default\"}"] == 0
                    && scrape["pgpush_queue_oldest_due_seconds{app=\"default\"}"] == 0
            }
            try await worker.stop()
        }
    }

    @Test("a credential that Apple refuses, and the end of it")
    func refusedCredential() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...3)
            try await rig.simulator.set("answer-all", "403:InvalidProviderToken")
            let (worker, pages) = try await Pages.worker(rig)
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try await pages.readiness(
                503, "credential of default, production: refused (InvalidProviderToken)")
            let scrape = try await pages.eventually { scrape in
                (scrape.sum("pgpush_paused_scopes", "by=\"worker\"", "reason=\"InvalidProviderToken\"") ?? 0) > 0
            }
            #expect((scrape.sum("pgpush_pushes_total", "outcome=\"rejected\"") ?? 0) == 0)
            #expect(try pages.get("/healthz").status == 200)
            try await rig.simulator.control("calm")
            try rig.psql("SELECT resume_app('default')")
            try await pages.readiness(200)
            try await rig.status(of: id, is: "sent")
            try await worker.stop()
        }
    }

    @Test("each GOAWAY, with Apple's reason, none, or 'other' for what nobody knows")
    func goAway() async throws {
        try await Rig.run { rig in
            try rig.addDevices(1...1)
            let (worker, pages) = try await Pages.worker(rig, "--lanes", "1", "--connections", "1")
            for (reason, body, label) in [
                ("IdleTimeout", "json", "IdleTimeout"), ("user 4711", "json", "other"), ("x", "empty", "none"),
            ] {
                let id = try rig.insert("user_id, body", "'user-1', 'x'")
                try await rig.status(of: id, is: "sent")
                try await rig.simulator.set("goaway-reason", reason)
                try await rig.simulator.set("goaway-body", body)
                try await rig.simulator.control("goaway")
                try await pages.eventually { $0.sum("pgpush_gateway_goaways_total", "reason=\"\(label)\"") == 1 }
            }
            let scrape = try pages.scrape()
            let farewells = try rig.simulator.journal().connections.count { $0.event == "goaway" }
            #expect(scrape.sum("pgpush_gateway_goaways_total") == Double(farewells))
            let port = rig.simulator.productionPort
            let key = try #require(rig.environment["APNS_KEY_ID"])
            let labels = "{gateway=\"127.0.0.1:\(port)\",credential=\"\(key)\",reason=\"IdleTimeout\"}"
            #expect(scrape["pgpush_gateway_goaways_total" + labels] == 1, "\(scrape.text)")
            #expect(
                scrape.sum("pgpush_gateway_connect_attempts_total")
                    == Double(try await rig.simulator.counts().opened))
            #expect(scrape["pgpush_provider_tokens_made_total{credential=\"\(key)\"}"] == 1)
            let age = try #require(scrape["pgpush_provider_token_age_seconds{credential=\"\(key)\"}"])
            #expect(age > 0 && age < 2700)
            try await worker.stop()
        }
    }

    @Test("after SIGHUP the connections of the new key, and what was counted of the old one")
    func reload() async throws {
        let second = "\(NSTemporaryDirectory())/AuthKey_SECONDKEY1-\(UUID().uuidString).p8"
        try Data(try P256PrivateKey.generate().pkcs8PEM.utf8).write(to: URL(fileURLWithPath: second))
        try await Rig.run(simulator: ["--key", "id=SECONDKEY1,team=SIMTEAM001,file=\(second)"]) { rig in
            try rig.addDevices(1...1)
            func describe(_ more: [String: String] = [:]) throws -> [String: String] {
                var file = AppsFile()
                file.add("default", at: rig.simulator, more)
                return try file.write(in: rig.simulator.folder)
            }
            let first = try #require(rig.environment["APNS_KEY_ID"])
            let (worker, pages) = try await Pages.worker(
                rig, "--lanes", "1", "--connections", "1", more: try describe())
            let one = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: one, is: "sent")
            _ = try describe(["key_path": second, "key_id": "SECONDKEY1"])
            worker.signal(SIGHUP)
            try await worker.logs("the credentials were read again")
            let two = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: two, is: "sent")
            let attempts = "pgpush_gateway_connect_attempts_total"
            try await pages.eventually { scrape in
                scrape.sum(attempts, "credential=\"\(first)\"") == 1
                    && scrape.sum(attempts, "credential=\"SECONDKEY1\"") == 1
                    && scrape.sum("pgpush_gateway_connections", "credential=\"\(first)\"") == 0
                    && scrape.sum("pgpush_gateway_connections", "credential=\"SECONDKEY1\"") == 1
                    && scrape.series("pgpush_provider_token_age_seconds").keys.allSatisfy { $0.contains("SECONDKEY1") }
            }
            try await worker.stop()
        }
    }

    @Test("the end of a certificate, before it comes and when it has come")
    func certificate() async throws {
        try await Rig.run(.idle, simulator: ["--auth", "certificate"]) { rig in
            let bundle = try #require(rig.environment["APNS_BUNDLE_ID"])
            func issue(_ seconds: Int) throws -> (path: String, end: Int) {
                let issuer = try CertificateIssuer()
                let end = Int(Date().timeIntervalSince1970) + seconds
                let issued = try issuer.issue(
                    commonName: "Apple Push", names: [], usage: .client, validTo: seconds, userID: bundle)
                let path = "\(rig.simulator.folder)/\(UUID().uuidString).pem"
                try Data(issued.certificatePEM + issued.privateKeyPEM).write(to: URL(fileURLWithPath: path))
                return (path, end)
            }
            let good = try issue(10 * 86_400)
            let (worker, pages) = try await Pages.worker(
                rig, more: ["APNS_CERT_PATH": good.path, "APNS_CERT_PASSWORD": ""])
            let scrape = try await pages.eventually {
                $0.series("pgpush_certificate_expiry_timestamp_seconds").count == 2
            }
            for (series, value) in scrape.series("pgpush_certificate_expiry_timestamp_seconds") {
                #expect(abs(value - Double(good.end)) <= 120, "\(series) \(value)")
                #expect(series.contains("app=\"default\""))
            }
            #expect(scrape.series("pgpush_provider_token_age_seconds").isEmpty)
            try await pages.readiness(200)
            try await worker.stop()

            let old = try issue(-60)
            let (other, its) = try await Pages.worker(
                rig, more: ["APNS_CERT_PATH": old.path, "APNS_CERT_PASSWORD": ""])
            try await its.readiness(503, "credential of default, production: the certificate has expired")
            try await other.stop()
        }
    }

    @Test("a database that is away: the worker is alive and not ready, and shows no figures that nobody knows")
    func outage() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...2)
            let (proxy, variables) = try rig.databaseProxy()
            defer { proxy.close() }
            let (worker, pages) = try await Pages.worker(rig, "--poll-interval", "1", more: variables)
            let first = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: first, is: "sent")
            try await pages.readiness(200)
            try await pages.eventually { $0["pgpush_queue_due_notifications{app=\"default\"}"] == 0 }

            proxy.refuse()
            proxy.reset()
            try await pages.readiness(503, "database: does not answer")
            let away = try await pages.eventually { scrape in
                scrape["pgpush_database_up"] == 0 && (scrape.sum("pgpush_database_errors_total") ?? 0) > 0
                    && scrape["pgpush_queue_due_notifications{app=\"default\"}"] == nil
            }
            // What has been counted stays.
            #expect(away.sum("pgpush_pushes_total", "outcome=\"accepted\"") == 1)
            #expect(try pages.get("/healthz") == (200, "ok\n"))

            try proxy.thaw()
            try await pages.readiness(200)
            let second = try rig.insert("user_id, body", "'user-2', 'x'")
            try await rig.status(of: second, is: "sent", within: .seconds(60))
            try await pages.eventually { scrape in
                scrape.sum("pgpush_pushes_total", "outcome=\"accepted\"") == 2 && scrape["pgpush_database_up"] == 1
                    && scrape["pgpush_queue_due_notifications{app=\"default\"}"] == 0
            }
            try await worker.stop()
        }
    }

    @Test("that a worker still waits for its database: alive, not ready")
    func waiting() async throws {
        try await Rig.run(.idle) { rig in
            let (proxy, variables) = try rig.databaseProxy()
            defer { proxy.close() }
            proxy.refuse()
            let (worker, pages) = try await Pages.worker(rig, more: variables)
            #expect(try pages.get("/readyz") == (503, "starting: the database has not been reached yet\n"))
            #expect(try pages.get("/healthz") == (200, "ok\n"))
            #expect(try pages.scrape()["pgpush_database_up"] == 0)
            try proxy.thaw()
            try await pages.readiness(200)
            try await worker.stop()
        }
    }

    @Test("a functions' schema of a former version: the worker works, and says what to run")
    func formerSchema() async throws {
        try await Rig.run(.idle) { rig in
            try rig.addDevices(1...1)
            try rig.psql("DROP FUNCTION queue_figures")
            let (worker, pages) = try await Pages.worker(rig)
            try await worker.logs("run 'pgpush migrate' of this version")
            let id = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: id, is: "sent")
            try await pages.eventually { $0.sum("pgpush_pushes_total", "outcome=\"accepted\"") == 1 }
            #expect(try pages.scrape().series("pgpush_queue_due_notifications").isEmpty)
            try await pages.readiness(200)
            try await worker.stop()
        }
    }
}
