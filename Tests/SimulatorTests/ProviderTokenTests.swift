// Provider tokens: their form, their age, the keys behind them, and what a connection remembers of them.

import APNsSimulator
import Foundation
import TLS
import Testing

@Suite("Provider tokens")
struct ProviderTokenTests {
    private let signer: Signer
    private let bench: Bench

    init() throws {
        signer = try Signer.fresh()
        bench = try Bench(signer)
    }

    @Test("none, or an empty one")
    func missing() {
        #expect(bench.refusal(bearer: nil) == .missingProviderToken)
        #expect(bench.refusal(bearer: "") == .missingProviderToken)
    }

    @Test(
        "the age: an hour both ways",
        arguments: [
            (0, nil), (3590, nil), (-3590, nil), (3610, Rejection.expiredProviderToken), (-3610, .invalidProviderToken),
            (1_000_000_000, .expiredProviderToken),
        ] as [(Int, Rejection?)])
    func age(seconds: Int, reason: Rejection?) throws {
        #expect(bench.refusal(bearer: try signer.bearer(age: seconds)) == reason)
    }

    @Test("forms that are not Apple's")
    func forms() throws {
        let good = bench.bearer
        let wrong = [
            String(good.dropFirst("bearer ".count)), "basic " + good.dropFirst(7), good + "=", good + "x", good + ".x",
            good.replacingOccurrences(of: ".", with: ""), "bearer", "bearer ..", "bearer a.b.c",
            "bearer  " + good.dropFirst(7),
            try signer.bearer(header: "{\"alg\":\"HS256\",\"kid\":\"SIMKEY0001\"}"),
            try signer.bearer(header: "{\"alg\":\"none\",\"kid\":\"SIMKEY0001\"}"),
            try signer.bearer(header: "{\"alg\":\"ES256\"}"),
            try signer.bearer(header: "no json"), try signer.bearer(claims: "{\"iss\":\"SIMTEAM001\"}"),
            try signer.bearer(claims: "{\"iss\":\"SIMTEAM001\",\"iat\":\"1700000000\"}"),
            try signer.bearer(claims: "{\"iat\":1700000000}"), try signer.bearer(claims: "[]"),
            try signer.bearer(encode: asDER), try signer.bearer { Array($0.dropLast()) },
            try signer.bearer { signature in signature.enumerated().map { $0 == 40 ? $1 ^ 1 : $1 } },
        ]
        for bearer in wrong { #expect(bench.refusal(bearer: bearer) == .invalidProviderToken, "\(bearer)") }
        #expect(bench.refusal(bearer: good.replacingOccurrences(of: "bearer", with: "Bearer")) == nil)
    }

    @Test("a time of issue beyond all reckoning", arguments: ["-9223372036854775808", "9223372036854775807", "1e3"])
    func farOff(issued: String) throws {
        let bearer = try signer.bearer(claims: "{\"iss\":\"SIMTEAM001\",\"iat\":\(issued)}")
        #expect(bench.refusal(bearer: bearer) != nil)
    }

    @Test("unknown key, another team, another key under the same id")
    func keys() throws {
        var unknown = signer
        unknown.keyID = "UNKNOWN001"
        #expect(bench.refusal(bearer: try unknown.bearer()) == .invalidProviderToken)
        var other = signer
        other.teamID = "OTHERTEAM1"
        #expect(bench.refusal(bearer: try other.bearer()) == .invalidProviderToken)
        #expect(bench.refusal(bearer: try Signer.fresh().bearer()) == .invalidProviderToken)
    }

    @Test("a revoked key does not count until it is restored")
    func revoked() {
        let isKnown = bench.judge.registry.setRevoked(true, key: signer.keyID)
        #expect(isKnown)
        #expect(bench.refusal() == .invalidProviderToken)
        let isStillKnown = bench.judge.registry.setRevoked(false, key: signer.keyID)
        #expect(isStillKnown)
        #expect(bench.refusal() == nil)
        let isStranger = !bench.judge.registry.setRevoked(true, key: "NOSUCHKEY0")
        #expect(isStranger)
    }

    // MARK: Changes on a connection

    @Test("a token changes after 20 minutes, not before; then the connection is wedged")
    func changes() throws {
        let (first, second, third) = (
            try signer.bearer(age: 30), try signer.bearer(age: 20), try signer.bearer(age: 10)
        )
        #expect(bench.refusal(bearer: first) == nil)
        bench.seconds = 1200
        #expect(bench.refusal(bearer: second) == nil)
        bench.seconds = 1300
        #expect(bench.refusal(bearer: second) == nil)
        #expect(bench.refusal(bearer: third) == .tooManyProviderTokenUpdates)
        #expect(bench.refusal(bearer: second) == .tooManyProviderTokenUpdates, "the connection is wedged")
        bench.trust = ConnectionTrust()
        #expect(bench.refusal(bearer: third) == nil, "a new connection starts afresh")
    }

    @Test("the clock of changes may run for a whole environment")
    func sharedClock() throws {
        bench.judge.weather.tokens.isChangeClockShared = true
        let (first, second) = (try signer.bearer(age: 30), try signer.bearer(age: 20))
        #expect(bench.refusal(bearer: first) == nil)
        bench.trust = ConnectionTrust()
        #expect(bench.refusal(bearer: second) == .tooManyProviderTokenUpdates)
        bench.trust = ConnectionTrust()
        #expect(bench.refusal(bearer: first) == nil, "the first one is still good")
        bench.trust = ConnectionTrust()
        bench.environment = .sandbox
        #expect(bench.refusal(bearer: second) == nil, "the other service has a clock of its own")
    }

    @Test("an expired token wedges the connection", arguments: WedgeForm.allCases)
    func wedge(form: WedgeForm) throws {
        bench.judge.weather.wedge = form
        bench.judge.weather.tokens.changeInterval = .zero
        #expect(bench.refusal(bearer: try signer.bearer(age: 4000)) == .expiredProviderToken)
        let next = bench.send { request(["authorization": $0]) }
        switch form {
        case .off: #expect(next.rejection == nil)
        case .answer: #expect(next.rejection == .expiredProviderToken)
        case .silent: #expect(next.decision == .silence)
        }
    }

    @Test("tokens that are about can be made to expire; newer ones are good")
    func expireKnown() throws {
        let old = try signer.bearer(age: 60)
        #expect(bench.refusal(bearer: old) == nil)
        bench.judge.expireKnownTokens()
        bench.trust = ConnectionTrust()
        #expect(bench.refusal(bearer: old) == .expiredProviderToken)
        bench.trust = ConnectionTrust()
        #expect(bench.refusal(bearer: try signer.bearer()) == nil)
    }

    @Test("the simulator's calendar can be ahead")
    func clockOffset() {
        bench.judge.weather.clockOffset = .seconds(3700)
        #expect(bench.refusal() == .expiredProviderToken)
    }
}

@Suite("Kinds of keys on one connection")
struct KeyBindingTests {
    /// A second key of the same team, narrowed.
    private func key(
        _ id: String, team: String = "SIMTEAM001", environment: SimulatedEnvironment? = nil, topics: Set<String>? = nil,
        related: Set<String> = []
    ) throws -> (Signer, RegisteredKey) {
        var signer = try Signer.fresh()
        signer.keyID = id
        signer.teamID = team
        var key = signer.registered
        key.environment = environment
        key.topics = topics
        key.related = related
        return (signer, key)
    }

    private func bench(_ keys: [RegisteredKey]) throws -> Bench {
        var weather = Weather()
        weather.tokens.changeInterval = .zero
        return try Bench(try Signer.fresh(), keys: keys, weather: weather)
    }

    @Test("a key of the other environment, in both spellings")
    func environment() throws {
        let (signer, key) = try key("SANDBOX001", environment: .sandbox)
        let bench = try bench([key])
        #expect(bench.refusal(bearer: try signer.bearer()) == .badEnvironmentKeyOnWire)
        bench.judge.weather.tokens.usesDocumentedEnvironmentReason = true
        #expect(bench.refusal(bearer: try signer.bearer()) == .badEnvironmentKeyDocumented)
        bench.environment = .sandbox
        #expect(bench.refusal(bearer: try signer.bearer()) == nil)
    }

    @Test("a topic-specific key is good for its topics only")
    func topics() throws {
        let (signer, key) = try key("TOPICKEY01", environment: .production, topics: ["com.example.other"])
        let bench = try bench([key])
        #expect(bench.refusal(bearer: try signer.bearer()) == .topicDisallowed)
    }

    @Test("unrelated keys, teams and kinds do not meet on a connection")
    func binding() throws {
        let (topic, topicKey) = try key(
            "TOPICKEY01", environment: .production, topics: [appTopic], related: ["TOPICKEY02"])
        let (kin, kinKey) = try key("TOPICKEY02", environment: .production, topics: [appTopic])
        let (stranger, strangerKey) = try key("TOPICKEY03", environment: .production, topics: [appTopic])
        let (scoped, scopedKey) = try key("SCOPEDKEY1", environment: .production)
        let (foreign, foreignKey) = try key("FOREIGN001", team: "OTHERTEAM1")
        let bench = try bench([topicKey, kinKey, strangerKey, scopedKey, foreignKey])
        #expect(bench.refusal(bearer: try topic.bearer()) == nil)
        #expect(bench.refusal(bearer: try kin.bearer()) == nil)
        #expect(bench.refusal(bearer: try stranger.bearer()) == .unrelatedKey)
        #expect(bench.refusal(bearer: try scoped.bearer()) == .unrelatedKey)
        #expect(bench.refusal(bearer: try foreign.bearer()) == .invalidProviderToken)
        #expect(bench.refusal(bearer: bench.bearer) == .unrelatedKey, "a team key of old after a topic-specific one")
        bench.judge.weather.tokens.bindsKeys = false
        #expect(bench.refusal(bearer: try stranger.bearer()) == nil)
    }

    @Test("two team keys of old may share a connection")
    func teamKeys() throws {
        let (other, otherKey) = try key("TEAMKEY002")
        let bench = try bench([otherKey])
        #expect(bench.refusal() == nil)
        #expect(bench.refusal(bearer: try other.bearer()) == nil)
    }
}
