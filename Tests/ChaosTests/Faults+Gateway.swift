// What Apple's side does: silence, slowness, refusals, farewells, limits, certificates, calendars, and what the network between does.

import TestSupport

/// Switches of the simulator, set and after a while put back.
struct Weather: Fault {
    let name: String
    let settings: [(name: String, value: String)]
    /// What is done to the connections that are open, such as `abort`; they would not notice otherwise.
    let command: String?
    let lasts: Duration
    var description: String { "APNs: \(name) for \(lasts)" }

    init(_ name: String, _ settings: [(String, String)], command: String? = nil, lasts: Duration) {
        self.name = name
        self.settings = settings.map { (name: $0.0, value: $0.1) }
        self.command = command
        self.lasts = lasts
    }

    func begin(on field: Field) async throws {
        for setting in settings { try await field.rig.simulator.set(setting.name, setting.value) }
        if let command { try await field.rig.simulator.control(command) }
    }

    func end(on field: Field) async throws { try await field.rig.simulator.control("calm") }
}

/// The way from all replicas to a gateway.
struct GatewayWay: Fault {
    let isProduction: Bool
    let habit: NetworkHabit
    let lasts: Duration
    var description: String {
        "the way to \(isProduction ? "production" : "the sandbox") is \(habit.rawValue) for \(lasts)"
    }

    private func way(_ field: Field) -> TCPProxy { isProduction ? field.production : field.sandbox }

    func begin(on field: Field) {
        let now = Clock.now
        field.record { $0.delays.append(now...now + lasts / .seconds(1)) }
        way(field).take(habit)
    }

    func end(on field: Field) throws { try way(field).thaw() }
}

/// Kinds of faults of the gateway, drawn by a scenario.
enum GatewayFaults {
    static func draw(_ random: inout SeededGenerator) -> any Fault {
        let lasts = random.seconds(2...10)
        switch random.number(0...9) {
        case 0, 1: return answers(&random, lasts)
        case 2, 3: return farewell(&random, lasts)
        case 4: return endings(&random, lasts)
        case 5: return limits(&random, lasts)
        case 6: return admission(&random, lasts)
        case 7: return trust(&random, lasts)
        case 8: return calendar(&random, lasts)
        default:
            return GatewayWay(
                isProduction: random.happens(0.8), habit: random.pick(NetworkHabit.allCases), lasts: lasts)
        }
    }

    private static func share(_ random: inout SeededGenerator) -> String { "0.\(random.number(1...5))" }

    private static func answers(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        let (share, slow) = (share(&random), random.number(500...3000))
        let choices: [[(String, String)]] = [
            [("silent-share", share)], [("latency-ms", "\(slow)"), ("jitter-ms", "\(slow)")],
            [("throttled-share", share)],
            [("error-share", share)], [("reset-share", share)], [("refused-share", share)],
            [("answer-all", "503:ServiceUnavailable")], [("answer-all", "503:Shutdown")],
            [("answer-all", "500:InternalServerError")], [("answer-all", "403:InvalidProviderToken")],
            [("answer-all", "400:BadDeviceToken")], [("bad-token-share", share)],
            [("answer-all", "413:PayloadTooLarge")],
            [("answer-all", "429:TooManyRequests")], [("gone-share", "0.05")],
            [("error-share", share), ("error-body", random.pick(["html", "empty", "broken", "split", "trailers"]))],
        ]
        let choice = random.pick(choices)
        return Weather(choice.map { "\($0.0) \($0.1)" }.joined(separator: ", "), choice, lasts: lasts)
    }

    private static func farewell(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        let settings = [
            ("goaway-after", "\(random.number(1...200))"),
            ("goaway-last", random.pick(["highest", "middle", "zero", "open"])),
            ("goaway-then", random.pick(["drain", "linger", "close", "mute"])),
            ("goaway-twice", random.pick(["on", "off"])), ("goaway-body", random.pick(["json", "raw", "empty"])),
            ("goaway-code", random.pick(["0", "7", "11"])),
        ]
        let name = settings.map { "\($0.0.dropFirst(7)) \($0.1)" }.joined(separator: ", ")
        return Weather("GOAWAY \(name)", settings, command: random.pick(["goaway", nil]), lasts: lasts)
    }

    private static func endings(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        let kind = random.pick(["close-after", "abort-after", "finish-after", "alert-after", "mute-after"])
        let count = random.number(1...300)
        return Weather("\(kind) \(count)", [(kind, "\(count)")], lasts: lasts)
    }

    private static func limits(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        let limit = random.pick(["0", "1", "1000"])
        let refuses = random.pick(["on", "off"])
        return Weather(
            "stream limit \(limit), refuses what is in flight: \(refuses)",
            [("stream-limit", limit), ("narrowed-limit", "1"), ("refuse-in-flight", refuses)],
            command: random.pick(["abort", nil]), lasts: lasts)
    }

    private static func admission(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        let kind = random.pick(["refuse", "silent", "cut", "abort", "mute"])
        return Weather("admission \(kind)", [("admission", kind)], command: "abort", lasts: lasts)
    }

    private static func trust(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        let choices = [
            ("certificate", "untrusted"), ("certificate", "expired"), ("certificate", "wrong-name"), ("alpn", "none"),
            ("alpn", "http/1.1"),
        ]
        let choice = random.pick(choices)
        return Weather("\(choice.0) \(choice.1)", [choice], command: random.pick(["abort", "close"]), lasts: lasts)
    }

    private static func calendar(_ random: inout SeededGenerator, _ lasts: Duration) -> any Fault {
        if random.happens(0.3) {
            return Weather("the provider token has expired", [], command: "expire-tokens", lasts: lasts)
        }
        let ahead = random.pick(["-600", "600"])
        return Weather("the calendar is \(ahead) s ahead", [("clock-offset-s", ahead)], lasts: lasts)
    }
}
