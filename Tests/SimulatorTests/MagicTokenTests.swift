// Magic device tokens and chance.

import APNsSimulator
import Testing

@Suite("Magic device tokens")
struct MagicTokenTests {
    private let bench: Bench

    init() throws { bench = try Bench(try Signer.fresh()) }

    private func send(_ token: String) -> Decision {
        bench.send { request(["authorization": $0], token: token) }.decision
    }

    @Test("every one does what its table says, and once means once", arguments: MagicToken.table)
    func table(magic: MagicToken) {
        if let only = magic.environment { bench.environment = only }
        #expect(send(magicToken(magic.digits)) == magic.decision)
        let second = magic.isOnce ? Decision.answer(Answer()) : magic.decision
        #expect(send(magicToken(magic.digits)) == second)
        #expect(send(magicToken(magic.digits + "ff")) == magic.decision, "another token with the same magic")
    }

    @Test("no two have the same digits")
    func digits() {
        #expect(Set(MagicToken.table.map(\.digits)).count == MagicToken.table.count)
        for magic in MagicToken.table { #expect(magic.digits.count == 4) }
    }

    @Test(
        "those that the outside face of the project names",
        arguments: [
            ("0410", 410, "Unregistered"), ("0400", 400, "BadDeviceToken"), ("0429", 429, "TooManyRequests"),
            ("0500", 500, "InternalServerError"), ("0503", 503, "ServiceUnavailable"), ("0413", 413, "PayloadTooLarge"),
            ("0403", 403, "Forbidden"),
        ])
    func promised(digits: String, status: Int, reason: String) {
        guard case .answer(let answer) = send(magicToken(digits)) else {
            Issue.record("no answer")
            return
        }
        #expect(answer.rejection == Rejection(status, reason))
    }

    @Test("upper case is the same token")
    func upperCase() {
        #expect(send(magicToken("00aa").uppercased()) == .silence)
    }

    @Test("a sandbox token is bad in production only")
    func environments() {
        #expect(bench.refusal(token: magicToken("1400")) == .badDeviceToken)
        bench.environment = .sandbox
        #expect(bench.refusal(token: magicToken("1400")) == nil)
        #expect(bench.refusal(token: magicToken("2400")) == .badDeviceToken)
    }

    @Test("magic does not hide what is wrong with a request")
    func rulesFirst() {
        #expect(bench.refusal(["apns-topic": nil], token: magicToken("0410")) == .missingTopic)
        #expect(bench.refusal(["authorization": nil], token: magicToken("0410")) == .missingProviderToken)
    }

    @Test("digits that mean nothing are accepted")
    func unknown() { #expect(bench.refusal(token: magicToken("7777")) == nil) }

    @Test("forgetting makes once begin anew")
    func forget() {
        #expect(bench.refusal(token: magicToken("0503")) == .serviceUnavailable)
        #expect(bench.refusal(token: magicToken("0503")) == nil)
        bench.judge.forget()
        #expect(bench.refusal(token: magicToken("0503")) == .serviceUnavailable)
    }
}

@Suite("Chance")
struct ChanceTests {
    private func tokens(_ count: Int) -> [String] { (0..<count).map { deviceToken("c" + String($0 + 1_000_000)) } }

    private func gone(seed: UInt64, share: Double, count: Int) throws -> [Bool] {
        let signer = try Signer.fresh()
        var weather = Weather()
        weather.goneShare = share
        let bench = try Bench(signer, weather: weather)
        bench.judge = Judge(
            rules: bench.judge.rules, registry: bench.judge.registry, weather: weather, seed: seed)
        return tokens(count).map { token in bench.refusal(token: token) == .unregistered }
    }

    @Test("a share of tokens is dead: the same ones for the same seed, others for another")
    func shares() throws {
        let first = try gone(seed: 1, share: 0.1, count: 2000)
        #expect(try gone(seed: 1, share: 0.1, count: 2000) == first)
        #expect(try gone(seed: 2, share: 0.1, count: 2000) != first)
        let dead = first.count { $0 }
        #expect((140...260).contains(dead), "about a tenth: \(dead)")
        #expect(try gone(seed: 1, share: 0, count: 50).allSatisfy { !$0 })
        #expect(try gone(seed: 1, share: 1, count: 50).allSatisfy { $0 })
    }

    @Test("a dead token stays dead, a passing fault rolls again")
    func attempts() throws {
        var weather = Weather()
        weather.goneShare = 0.5
        weather.errorShare = 0.5
        let bench = try Bench(try Signer.fresh(), weather: weather)
        for token in tokens(40) {
            let answers = (0..<12).map { _ in bench.refusal(token: token) }
            if answers.contains(.unregistered) {
                #expect(answers.allSatisfy { $0 == .unregistered })
            } else {
                #expect(answers.contains(nil) && answers.contains(.internalServerError))
            }
        }
    }

    @Test("retry-after goes with 429 and 5xx only, and a magic token keeps its own")
    func retryAfter() throws {
        var weather = Weather()
        weather.retryAfter = 7
        let bench = try Bench(try Signer.fresh(), weather: weather)
        let expected: [(String, Int?)] = [("0429", 7), ("0503", 7), ("2429", 2), ("0410", nil), ("7777", nil)]
        for (digits, seconds) in expected {
            let decision = bench.send { request(["authorization": $0], token: magicToken(digits)) }.decision
            guard case .answer(let answer) = decision else {
                Issue.record("\(digits): no answer")
                continue
            }
            #expect(answer.retryAfter == seconds, "\(digits)")
        }
    }

    @Test("the weather can make every answer the same, whatever the request")
    func answerAll() throws {
        var weather = Weather()
        weather.answerAll = .invalidProviderToken
        let bench = try Bench(try Signer.fresh(), weather: weather)
        #expect(bench.refusal() == .invalidProviderToken)
        #expect(bench.refusal(["authorization": nil], method: "GET") == .invalidProviderToken)
    }
}
