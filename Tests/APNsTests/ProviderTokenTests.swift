// The provider token: its text, checked by two other implementations, and when it is made, on clocks that the test moves.

import Foundation
import HTTP2
import TLS
import Telemetry
import Testing

@testable import APNs

/// Clocks that stand still until they are moved.
private final class TestClock: Sendable {
    private let state = Lock((boot: UInt64(5_000_000_000), wall: Int64(1_800_000_000)))

    var clock: ProviderTokenClock {
        ProviderTokenClock(boot: { self.state.withLock { $0.boot } }, wall: { self.state.withLock { $0.wall } })
    }

    func advance(minutes: Int64) {
        state.withLock {
            $0.boot += UInt64(minutes) * 60_000_000_000
            $0.wall += minutes * 60
        }
    }

    func setWall(by seconds: Int64) { state.withLock { $0.wall += seconds } }
}

private struct Claims: Decodable {
    let iss: String
    let iat: Int64
}

private struct Header: Decodable {
    let alg: String
    let kid: String
}

/// Takes a token apart and checks its signature.
private func read(_ token: String, _ key: APNsKey) throws -> (header: Header, claims: Claims) {
    let parts = token.split(separator: ".", omittingEmptySubsequences: false)
    try #require(parts.count == 3)
    #expect(!token.contains("=") && !token.contains("+") && !token.contains("/"))
    let decoded = try parts.map { try #require(Base64.decode($0.utf8)) }
    #expect(decoded[2].count == 64)
    #expect(key.privateKey.publicKey.verifyES256(decoded[2], of: Array("\(parts[0]).\(parts[1])".utf8)))
    return (
        try JSONDecoder().decode(Header.self, from: Data(decoded[0])),
        try JSONDecoder().decode(Claims.self, from: Data(decoded[1]))
    )
}

@Suite struct ProviderTokenTests {
    private let time = TestClock()
    private let key: APNsKey
    private let token: ProviderToken

    init() throws {
        key = try APNsKey(privateKey: P256PrivateKey.generate(), keyID: "ABC123DEFG", teamID: "TEAM123456")
        token = ProviderToken(key: key, clock: time.clock)
    }

    @Test func textIsAJSONWebToken() throws {
        let text = try ProviderTokenText.signed(by: key, issuedAt: 1_800_000_000)
        let (header, claims) = try read(text, key)
        #expect(header.alg == "ES256")
        #expect(header.kid == "ABC123DEFG")
        #expect(claims.iss == "TEAM123456")
        #expect(claims.iat == 1_800_000_000)
        // `iat` is a number, not a text.
        let parts = text.split(separator: ".")
        let body = try #require(Base64.decode(parts[1].utf8))
        #expect(String(decoding: body, as: UTF8.self) == #"{"iss":"TEAM123456","iat":1800000000}"#)
    }

    @Test func opensslVerifiesTheSignature() throws {
        let openssl = try OpenSSLCommand()
        for round in 0..<8 {
            let parts = try ProviderTokenText.signed(by: key, issuedAt: Int64(round)).split(separator: ".")
            let raw = try #require(Base64.decode(parts[2].utf8))
            try openssl.write(Array("\(parts[0]).\(parts[1])".utf8), to: "signed")
            try openssl.write(der(raw), to: "signature")
            try openssl.write(Array(try key.privateKey.publicKey.pem.utf8), to: "public")
            #expect(try openssl.run("openssl dgst -sha256 -verify public -signature signature signed"))
            try openssl.write(Array("\(parts[0]).\(parts[1])x".utf8), to: "signed")
            #expect(try !openssl.run("openssl dgst -sha256 -verify public -signature signature signed"))
        }
    }

    /// SEQUENCE of two INTEGERs.
    private func der(_ raw: [UInt8]) -> [UInt8] {
        func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
            var digits = Array(bytes.drop { $0 == 0 })
            if digits.first.map({ $0 >= 0x80 }) ?? true { digits.insert(0, at: 0) }
            return [2, UInt8(digits.count)] + digits
        }
        let body = integer(raw[..<32]) + integer(raw[32...])
        return [0x30, UInt8(body.count)] + body
    }

    @Test func F09_oneTokenForEverybodyUntilItIsDue() throws {
        let first = try #require(token.authorization)
        #expect(token.generation == 1)
        for _ in 0..<44 {
            time.advance(minutes: 1)
            #expect(token.authorization === first)
        }
        time.advance(minutes: 1)
        let second = try #require(token.authorization)
        #expect(second !== first)
        #expect(token.generation == 2)
        #expect(token.authorization === second)
    }

    @Test func F10_aTokenNeverGetsAnHourOld() throws {
        _ = token.authorization
        for _ in 0..<(6 * 60) {
            time.advance(minutes: 1)
            _ = token.authorization
            #expect(try #require(token.age) < .seconds(50 * 60))
        }
        #expect(token.generation == 9)
        // Idle for long: the next who asks gets a new one.
        time.advance(minutes: 61)
        _ = token.authorization
        #expect(token.age == .zero)
    }

    @Test func F10_aFakedWallClockMakesItRenew() throws {
        let first = try #require(token.authorization)
        time.advance(minutes: 25)
        #expect(token.authorization === first)
        time.setWall(by: 61 * 60)
        #expect(token.authorization !== first)
        // But not twice within 20 minutes, whatever the clock does.
        let second = try #require(token.authorization)
        time.setWall(by: 61 * 60)
        #expect(token.authorization === second)
        time.advance(minutes: 20)
        #expect(token.authorization !== second)
    }

    @Test func F10_fiftyRefusalsMakeOneNewToken() throws {
        let old = try #require(token.authorization)
        let seen = token.generation
        let results = (0..<50).map { _ in token.renewAfterExpired(seen: seen) }
        #expect(results.first == .renewed)
        #expect(results.dropFirst().allSatisfy { $0 == .alreadyRenewed })
        #expect(token.generation == 2)
        #expect(token.authorization !== old)
        // The new one is refused as well: a clock is wrong.
        #expect(token.renewAfterExpired(seen: 2) == .refused(wait: .seconds(1200)))
        time.advance(minutes: 19)
        #expect(token.renewAfterExpired(seen: 2) == .refused(wait: .seconds(60)))
        time.advance(minutes: 1)
        #expect(token.renewAfterExpired(seen: 2) == .renewed)
    }

    @Test func F10_refusalsOfAnUnknownTokenMakeOneToo() {
        _ = token.authorization
        let results = (0..<50).map { _ in token.renewAfterExpired() }
        #expect(results.filter { $0 == .renewed }.count == 1)
        #expect(results.filter { $0 == .alreadyRenewed }.count == 49)
    }

    @Test func F10_lateRefusalsOfTheTokenBeforeMakeNone() throws {
        _ = token.authorization
        time.advance(minutes: 45)
        let second = try #require(token.authorization)
        #expect(token.renewAfterExpired() == .alreadyRenewed)
        #expect(token.renewAfterExpired(seen: 1) == .alreadyRenewed)
        #expect(token.authorization === second)
        time.advance(minutes: 20)
        #expect(token.renewAfterExpired() == .renewed)
        #expect(token.generation == 3)
    }

    @Test func F10_manyThreadsMakeOneNewToken() async {
        _ = token.authorization
        let renewed = await withTaskGroup(of: Int.self) { group in
            for _ in 0..<50 { group.addTask { token.renewAfterExpired(seen: 1) == .renewed ? 1 : 0 } }
            return await group.reduce(0, +)
        }
        #expect(renewed == 1)
        #expect(token.generation == 2)
    }

    @Test func theNewTokenIsNewer() throws {
        let log = LogCapture()
        let token = ProviderToken(
            key: key, clock: time.clock, logger: Logger(label: "apns", output: log.output()))
        _ = token.authorization
        _ = token.renewAfterExpired(seen: 1)
        #expect(log.lines.count == 2)
        #expect(log.lines[0].hasSuffix("apns.key_id=ABC123DEFG apns.token.generation=1 apns.token.cause=due"))
        #expect(log.lines[1].hasSuffix("apns.token.generation=2 apns.token.cause=expired"))
        #expect(!log.lines.joined().contains("eyJ"))
        var plan = MintPlan()
        plan.minted(issuedAt: 100, boot: 0, forced: false)
        #expect(plan.nextIssuedAt(wall: 100) == 101)
        #expect(plan.nextIssuedAt(wall: 41) == 101)
        #expect(plan.nextIssuedAt(wall: 101) == 101)
        // Put back by more than a minute: the clock was wrong before.
        #expect(plan.nextIssuedAt(wall: 40) == 40)
    }

    @Test func F09_afterTooManyUpdatesNoneIsMade() throws {
        let first = try #require(token.authorization)
        time.advance(minutes: 30)
        token.freeze()
        #expect(token.renewAfterExpired(seen: 1) == .refused(wait: .seconds(1200)))
        time.advance(minutes: 16)
        #expect(token.authorization === first)
        #expect(token.renewAfterExpired(seen: 1) == .refused(wait: .seconds(240)))
        time.advance(minutes: 4)
        #expect(token.authorization !== first)
    }

    @Test func aFrozenTokenIsReplacedBeforeItEnds() throws {
        let first = try #require(token.authorization)
        time.advance(minutes: 44)
        token.freeze()
        time.advance(minutes: 10)
        #expect(token.authorization === first)
        time.advance(minutes: 1)
        #expect(token.authorization !== first)
    }

    @Test func theDatabasesClockDatesIt() throws {
        var plan = MintPlan()
        #expect(plan.isDue(boot: 0, wall: 0))
        plan.minted(issuedAt: 1_800_000_600, boot: 0, forced: false)
        // The database's clock was ten minutes ahead and has been put right.
        #expect(!plan.isDue(boot: 19 * MintPlan.minute, wall: 1_800_000_000 - 1))
        #expect(plan.isDue(boot: 20 * MintPlan.minute, wall: 1_800_000_000))

        token.setClockOffset(.seconds(-600))
        _ = token.authorization
        #expect(token.age == .zero)
        token.setClockOffset(.zero)
        #expect(token.age == .seconds(600))
    }

    @Test func preparingFindsNoFault() throws {
        try token.prepare()
        #expect(token.generation == 1)
        #expect(ProviderToken(key: key).age == nil)
    }

    @Test func theBearerIsWhatIsSent() throws {
        let value = try #require(token.authorization)
        let text = try ProviderTokenText.signed(by: key, issuedAt: 1_800_000_000)
        #expect(value.count == "bearer ".utf8.count + text.utf8.count)
    }
}
