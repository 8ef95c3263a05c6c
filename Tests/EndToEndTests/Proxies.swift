// Out through a proxy that nobody here wrote (tinyproxy): with the right password, with a wrong one, to a host that it does not allow,
// while it is down and when it is back.

import Foundation
import TestSupport
import Testing

@Suite("Through a proxy") struct Proxies {
    @Test("everything goes out, and doctor looks through it")
    func works() async throws {
        let proxy = try TinyProxy()
        try await proxy.start()
        try await Rig.run { rig in
            try rig.addDevices(1...600)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let more = ["APNS_PROXY_URL": proxy.url]
            let worker = try await rig.drain(more: more)
            #expect(try rig.row(id) == NotificationRow("sent", 600, accepted: 600))
            #expect(proxy.log.contains("CONNECT 127.0.0.1:"), "\(proxy.log)")
            #expect(!worker.log.contains("s3cret"))
            let test = try rig.pgpush("send-test", "--token", DeviceTokens.plain(1), more: more)
            #expect(test.status == 0, "\(test)")
            let doctor = try rig.pgpush("doctor", more: more)
            #expect(
                doctor.output.contains("with TLSv1.3 and HTTP/2") && !doctor.output.contains("s3cret"),
                "\(doctor.output)")
        }
    }

    @Test("that does not know us, or does not let us there, nothing is lost and the reason is told")
    func refused() async throws {
        let proxy = try TinyProxy(ports: ["443"])
        try await proxy.start()
        try await Rig.run { rig in
            try rig.addDevices(1...3)
            let id = try rig.insert("broadcast, body", "true, 'x'")
            let wrong = "http://anna:wr0ng@127.0.0.1:\(proxy.port)"
            for (url, words) in [
                (wrong, "does not accept the user or the password"),
                ("http://127.0.0.1:\(proxy.port)", "asks for a user and a password"),
                (proxy.url, "it answered 403"),
            ] {
                let worker = try rig.worker("--once", more: ["APNS_PROXY_URL": url])
                #expect(try await worker.exitCode(within: .seconds(180)) == 6)
                #expect(
                    worker.log.contains(words) && !worker.log.contains("wr0ng") && !worker.log.contains("s3cret"),
                    "\(worker.log)")
                let doctor = try rig.pgpush("doctor", more: ["APNS_PROXY_URL": url])
                #expect(doctor.output.contains(words) && doctor.output.contains("APNS_PROXY_URL"), "\(doctor.output)")
                #expect(!doctor.output.contains("wr0ng") && !doctor.output.contains("s3cret"))
            }
            #expect(try rig.value("finished_at IS NULL", of: id) == "t")
            #expect(try rig.database.number("SELECT count(*) FROM delivery_failures") == 0)
            let bad = try rig.pgpush("worker", "--once", more: ["APNS_PROXY_URL": "https://anna:s3cret@127.0.0.1:1"])
            #expect(
                bad.status == 4 && bad.errors.contains("APNS_PROXY_URL") && !bad.errors.contains("s3cret"),
                "\(bad.errors)")
        }
    }

    @Test("that goes away and comes back, each push is made once")
    func returns() async throws {
        let proxy = try TinyProxy()
        try await proxy.start()
        try await Rig.run { rig in
            try rig.addDevices(1...3)
            let worker = try rig.worker("--poll-interval", "1", more: ["APNS_PROXY_URL": proxy.url])
            let first = try rig.insert("user_id, body", "'user-1', 'x'")
            try await rig.status(of: first, is: "sent", within: .seconds(180))
            await proxy.stop()
            try await worker.logs("connection lost", within: .seconds(180))
            let second = try rig.insert("user_id, body", "'user-2', 'x'")
            try await worker.logs("connecting failed", within: .seconds(180))
            #expect(try rig.value("status", of: second) != "failed")
            try await proxy.start()
            try await rig.status(of: second, is: "sent", within: .seconds(360))
            try await worker.stop()
            #expect(try await rig.simulator.counts().requests == 2)
        }
    }
}
