// What is counted, under which words, and when a worker is healthy and ready: the rules behind /metrics, /healthz and /readyz.

import PushModel
import PushStore
import Reactor
import Testing

@testable import Pipeline

@Suite("A reason in a label") struct ReasonLabelTests {
    private static let odd = [
        "user 42", "ab12cd34ef", "'; DROP TABLE", "BadDeviceToken ", "baddevicetoken", "Bad\nDeviceToken",
        String(repeating: "x", count: 10_000),
    ]

    @Test("is Apple's word where it is known, else one of ours")
    func push() {
        #expect(ReasonLabel.push(status: 410, reason: "Unregistered") == "Unregistered")
        #expect(ReasonLabel.push(status: 500, reason: "HTTP 500") == "none")
        #expect(ReasonLabel.push(status: 500, reason: "") == "none")
        #expect(ReasonLabel.push(status: 0, reason: "NoAnswer") == "NoAnswer")
        #expect(ReasonLabel.push(status: 0, reason: "Unregistered") == "NotSent")
        #expect(ReasonLabel.push(status: 0, reason: "the stored device token is not hex") == "NotSent")
        for reason in Self.odd + ["HTTP 5000", "HTTP abc"] {
            #expect(ReasonLabel.push(status: 400, reason: reason) == "other")
            #expect(ReasonLabel.push(status: 0, reason: reason) == "NotSent")
        }
    }

    @Test("has a status of three digits beside it, or a word")
    func status() {
        #expect(
            [0, 99, 100, 200, 429, 599, 600, -1, 99_999].map(ReasonLabel.status) == [
                "none", "other", "100", "200", "429", "599", "other", "other", "other",
            ])
    }

    @Test("of a farewell is a known one")
    func farewell() {
        #expect(ReasonLabel.farewell("") == "none")
        #expect(ReasonLabel.farewell("IdleTimeout") == "IdleTimeout")
        for reason in Self.odd { #expect(ReasonLabel.farewell(reason) == "other") }
    }

    @Test("of a pause never shows what a person wrote")
    func pause() {
        func label(_ reason: String, isAutomatic: Bool = true) -> String {
            ReasonLabel.pause(pauseFigure(reason, isAutomatic: isAutomatic))
        }
        #expect(label("InvalidProviderToken") == "InvalidProviderToken")
        #expect(label("HTTP 403") == "HTTP 403")
        #expect(label("TLS alert: certificate_revoked") == "TLSAlert")
        #expect(label("no credential for sandbox is configured") == "NoCredential")
        #expect(label("BadDeviceToken: 40 of 41 answers") == "Storm")
        for reason in Self.odd.filter({ !$0.contains("BadDeviceToken") }) { #expect(label(reason) == "other") }
        for reason in Self.odd + ["InvalidProviderToken"] {
            #expect(label(reason, isAutomatic: false) == "Operator")
        }
    }
}

@Suite("A worker") struct ReadinessTests {
    private let now: Int64 = 1_000_000

    private func ready(_ change: (inout Readiness) -> Void) -> [String] {
        var readiness = Readiness()
        readiness.hasStarted = true
        readiness.databaseAnswers = true
        readiness.credentials = [
            CredentialState(app: "shop", environment: .production),
            CredentialState(app: "shop", environment: .sandbox, validity: 0...2_000_000),
        ]
        change(&readiness)
        return readiness.problems(now: now)
    }

    @Test("is ready when the database answers and no credential is known to be bad")
    func good() {
        #expect(ready { _ in } == [])
        #expect(ready { $0.hasStarted = false } == ["starting: the database has not been reached yet"])
        #expect(ready { $0.databaseAnswers = false } == ["database: does not answer"])
        #expect(ready { $0.isStopping = true } == ["stopping"])
    }

    @Test("is not with a certificate whose time is over or has not come, or a key that cannot sign")
    func credentials() {
        #expect(
            ready { $0.credentials[1].validity = 0...now }
                == ["credential of shop, sandbox: the certificate has expired"])
        #expect(ready { $0.credentials[1].validity = now...(now + 1) } == [])
        #expect(
            ready { $0.credentials[1].validity = (now + 1)...(now + 2) }
                == ["credential of shop, sandbox: the certificate is not valid yet"])
        #expect(
            ready { $0.credentials[0].isSigned = false }
                == ["credential of shop, production: no provider token can be signed"])
    }

    @Test("is not while Apple refuses a credential, but whatever else is paused")
    func refused() {
        let refused = "credential of shop, production: refused (InvalidProviderToken)"
        #expect(ready { $0.pauses = [pauseFigure("InvalidProviderToken", .production)] } == [refused])
        #expect(
            ready { $0.pauses = [pauseFigure("InvalidProviderToken")] }
                == [refused, "credential of shop, sandbox: refused (InvalidProviderToken)"])
        for pause in [
            pauseFigure("InvalidProviderToken", isAutomatic: false),
            pauseFigure("TopicDisallowed", .production, topic: "com.example"),
            pauseFigure("no credential for production is configured", .production),
            pauseFigure("InvalidProviderToken", .production, app: "news"),
        ] { #expect(ready { $0.pauses = [pause] } == []) }
    }

    @Test("asks the database for its figures a fiftieth of the time at most, and every minute at least")
    func figures() {
        #expect(FiguresPlan.pause(after: .zero) == .seconds(5))
        #expect(FiguresPlan.pause(after: .milliseconds(200)) == .seconds(10))
        #expect(FiguresPlan.pause(after: .seconds(5)) == .seconds(60))
    }
}

private func pauseFigure(
    _ reason: String, _ environment: PushEnvironment? = nil, topic: String? = nil, app: String = "shop",
    isAutomatic: Bool = true
) -> PauseFigure {
    PauseFigure(
        scope: ScopePause(app: app, environment: environment, topic: topic, reason: reason), isAutomatic: isAutomatic)
}

@Suite("The figures of gateways") struct GatewayFigureTests {
    @Test("are added up, and what only grows stays when one is closed")
    func sums() {
        var one = GatewayFigures()
        one.open = 2
        one.streams = 7
        one.queued = 1
        one.connectAttempts = 5
        one.goAways = ["none": 1, "Shutdown": 2]
        var sum = one
        sum += one
        #expect(sum.open == 4 && sum.streams == 14 && sum.queued == 2 && sum.connectAttempts == 10)
        #expect(sum.goAways == ["none": 2, "Shutdown": 4])
        let rest = one.closed
        #expect(rest.open == 0 && rest.streams == 0 && rest.queued == 0)
        #expect(rest.connectAttempts == 5 && rest.goAways == one.goAways)
    }
}
