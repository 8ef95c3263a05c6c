// Senders that sign in with a certificate, and channels at ports of their own, both met by curl.

import APNsSimulator
import Foundation
import TestSupport
import Testing

@Suite("Client certificates") struct ClientCertificateTests {
    /// A simulator that has issued one certificate for each case; `body` gets curl and a way to send with one of them.
    private func run(
        _ arguments: [String] = [],
        _ body: (SimulatorProcess, (String, [String], String?) async throws -> CurlAnswer) async throws -> Void
    ) async throws {
        let issued = [
            "--issue", "name=app", "--issue", "name=one,topics=\(appTopic)", "--issue",
            "name=sand,topics=\(appTopic),environment=sandbox", "--issue", "name=old,topics=\(appTopic),days=-2",
        ]
        try await SimulatorProcess.run(issued + arguments) { simulator in
            let curl = try CurlSender(simulator)
            try await body(simulator) { name, headers, url in
                try await curl.request(
                    "POST", "\(url ?? simulator.productionURL)/3/device/\(deviceToken("a1"))", headers: headers,
                    body: "{\"aps\":{\"alert\":\"Hello\"}}", certificate: "\(simulator.folder)/credentials/\(name).pem")
            }
        }
    }

    private let topic = "apns-topic: \(appTopic)"

    @Test("take the place of tokens; topics are those that they list") func topics() async throws {
        try await run { simulator, send in
            // Whatever stands in authorization is not looked at.
            #expect(try await send("app", [topic, "authorization: bearer nonsense"], nil).status == 200)
            #expect(try await send("app", [], nil).body == "{\"reason\":\"MissingTopic\"}")
            #expect(try await send("one", [], nil).status == 200, "there is but one topic")
            let other = try await send("one", ["apns-topic: \(appTopic).voip", "apns-push-type: voip"], nil)
            #expect(other.body == "{\"reason\":\"TopicDisallowed\"}")
            let location = ["apns-topic: \(appTopic).location-query", "apns-push-type: location"]
            #expect(try await send("app", location, nil).body == "{\"reason\":\"TopicDisallowed\"}")
            #expect(try await send("app", ["apns-topic: a b"], nil).body == "{\"reason\":\"BadTopic\"}")
            let opened = try simulator.journal().connections.filter { $0.event == "opened" }
            #expect(opened.allSatisfy { $0.certificate?.count == 16 })
            #expect(Set(opened.compactMap(\.certificate)).count == 2)
        }
    }

    @Test("for the other environment: 403, or GOAWAY") func environment() async throws {
        try await run { simulator, send in
            #expect(try await send("sand", [topic], simulator.sandboxURL).status == 200)
            #expect(try await send("sand", [topic], nil).body == "{\"reason\":\"BadCertificateEnvironment\"}")
            try await simulator.set("wrong-environment-by", "goaway")
            #expect(try await send("sand", [topic], nil).status == 0)
            let left = try simulator.journal().connections.filter { $0.event == "goaway" }
            #expect(left.first?.debug == "{\"reason\":\"BadCertificateEnvironment\"}")
            #expect(left.allSatisfy { $0.lastStream == 0 && $0.code == 0 })
        }
    }

    @Test("that count no more: alert, GOAWAY, 403; an expired one never gets in") func revoked() async throws {
        try await run { simulator, send in
            #expect(try await send("old", [topic], nil).code != 0)
            for form in ["revoked", "expired"] {
                try await simulator.set("client-certificate", form)
                try await simulator.set("bad-certificate-by", "alert")
                #expect(try await send("app", [topic], nil).code != 0, "\(form)")
            }
            #expect(try await simulator.counts().requests == 0)
            try await simulator.set("bad-certificate-by", "goaway")
            #expect(try await send("app", [topic], nil).status == 0)
            let left = try simulator.journal().connections.filter { $0.event == "goaway" }
            #expect(left.first?.debug == "{\"reason\":\"BadCertificate\"}")
            try await simulator.set("bad-certificate-by", "answer")
            #expect(try await send("app", [topic], nil).body == "{\"reason\":\"BadCertificate\"}")
            try await simulator.set("client-certificate", "good")
            #expect(try await send("app", [topic], nil).status == 200)
        }
    }
}

@Suite("Ports of channel management") struct ManagementPortTests {
    @Test("answer for channels alone, and are the only ones that do", arguments: [false, true])
    func ports(hasOwn: Bool) async throws {
        let arguments = hasOwn ? ["--manage-port", "0", "--sandbox-manage-port", "0"] : []
        try await SimulatorProcess.run(arguments) { simulator in
            #expect(simulator.environment["APNS_MANAGE_URL"] == simulator.manageURL)
            #expect((simulator.manageURL == simulator.productionURL) == !hasOwn)
            #expect((simulator.sandboxManageURL == simulator.sandboxURL) == !hasOwn)
            let curl = try CurlSender(simulator)
            let (path, list) = ("/1/apps/\(appTopic)/channels", "/1/apps/\(appTopic)/all-channels")
            let made = try await curl.request(
                "POST", simulator.manageURL + path,
                body: "{\"message-storage-policy\":1,\"push-type\":\"LiveActivity\"}")
            let id = try #require(made.headers["apns-channel-id"])
            #expect(made.status == 201 && made.body.isEmpty)
            #expect(made.headers["apns-request-id"].map(PushRules.isUUID) == true)
            let named = "01234567-89ab-cdef-0123-456789abcdef"
            let listed = try await curl.request(
                "GET", simulator.manageURL + list, headers: ["apns-request-id: \(named)"])
            #expect(listed.body == "{\"channels\":[\"\(id)\"]}" && listed.headers["apns-request-id"] == named)
            #expect(try await curl.request("GET", simulator.sandboxManageURL + list).body == "{\"channels\":[]}")
            #expect(try await curl.request("GET", simulator.productionURL + list).status == (hasOwn ? 404 : 200))
            let push = "/3/device/\(deviceToken("a1"))"
            let pushed = try await curl.request(
                "POST", simulator.manageURL + push, headers: ["apns-topic: \(appTopic)"],
                body: "{\"aps\":{\"alert\":\"Hello\"}}")
            #expect(pushed.status == (hasOwn ? 404 : 200))
            let first = try #require(try simulator.journal().requests.first)
            #expect(first.answerChannelId == id && first.answerRequestId == made.headers["apns-request-id"])
            #expect(try simulator.journal().requests[1].answerRequestId == named)
        }
    }
}
