// Requests and provider tokens as a sender would make them, in every right and wrong form.

import APNsSimulator
import Foundation
import Reactor
import TLS

/// A device token that is not magic: 64 digits that begin with `start`.
func deviceToken(_ start: String = "") -> String { start + String(repeating: "0", count: max(0, 64 - start.count)) }

/// A magic device token.
func magicToken(_ digits: String) -> String { deviceToken(MagicToken.prefix + digits) }

let appTopic = "com.example.pgpush"
let plainBody = Array("{\"aps\":{\"alert\":\"Hello\"}}".utf8)

/// A good request for an alert, with changes: nil takes a header away.
func request(
    _ changes: [String: String?] = [:], token: String = deviceToken("ab"), method: String = "POST", path: String? = nil,
    extra: [(name: String, value: String)] = [], body: [UInt8] = plainBody
) -> IncomingRequest {
    var headers: [String: String?] = [
        "apns-topic": appTopic, "apns-push-type": "alert", "apns-priority": "10", "apns-expiration": "0",
        "apns-id": "01234567-89ab-cdef-0123-456789abcdef",
    ]
    for (name, value) in changes { headers.updateValue(value, forKey: name) }
    var fields: [(name: String, value: String)] = [
        (name: ":method", value: method), (name: ":scheme", value: "https"), (name: ":authority", value: "localhost"),
        (name: ":path", value: path ?? "/3/device/\(token)"),
    ]
    for (name, value) in headers.sorted(by: { $0.key < $1.key }) {
        if let value { fields.append((name: name, value: value)) }
    }
    return IncomingRequest(fields: fields + extra, body: body)
}

/// A sender's key and the tokens it can make, the wrong ones included.
struct Signer {
    let key: P256PrivateKey
    var keyID = "SIMKEY0001"
    var teamID = "SIMTEAM001"

    init(key: P256PrivateKey) { self.key = key }
    init(file: String) throws { key = try P256PrivateKey(file: file) }
    static func fresh() throws -> Signer { Signer(key: try P256PrivateKey.generate()) }

    /// The key as the simulator knows it.
    var registered: RegisteredKey {
        let publicKey = key.publicKey
        return RegisteredKey(id: keyID, teamID: teamID) { publicKey.verifyES256($0, of: $1) }
    }

    /// The value of an `authorization` header.
    func bearer(
        age: Int = 0, header: String? = nil, claims: String? = nil, encode: (([UInt8]) -> [UInt8])? = nil
    ) throws -> String {
        let issued = Int(Date().timeIntervalSince1970) - age
        let head = header ?? "{\"alg\":\"ES256\",\"kid\":\"\(keyID)\"}"
        let body = claims ?? "{\"iss\":\"\(teamID)\",\"iat\":\(issued)}"
        let signed = Base64.encodeURLSafe(Array(head.utf8)) + "." + Base64.encodeURLSafe(Array(body.utf8))
        let signature = try key.signES256(Array(signed.utf8))
        return "bearer \(signed)." + Base64.encodeURLSafe(encode?(signature) ?? signature)
    }
}

/// A 64-byte signature as ASN.1 DER, as some libraries send it.
func asDER(_ signature: [UInt8]) -> [UInt8] {
    func integer(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        var number = Array(bytes.drop { $0 == 0 })
        if number.first.map({ $0 >= 0x80 }) ?? true { number.insert(0, at: 0) }
        return [0x02, UInt8(number.count)] + number
    }
    let content = integer(signature[..<32]) + integer(signature[32...])
    return [0x30, UInt8(content.count)] + content
}

/// The rules of a simulator without its sockets, and one connection.
final class Bench {
    var judge: Judge
    var trust = ConnectionTrust()
    let bearer: String
    var seconds: Int = 0
    var environment = SimulatedEnvironment.production

    init(_ signer: Signer, keys: [RegisteredKey] = [], strict: Bool = false, weather: Weather = Weather()) throws {
        judge = Judge(
            rules: PushRules(bundleIDs: [appTopic], isStrict: strict),
            registry: KeyRegistry(keys: [signer.registered] + keys), weather: weather)
        bearer = try signer.bearer()
    }

    /// What becomes of a request with this provider token (by default the bench's own).
    func send(_ incoming: (String) -> IncomingRequest, bearer: String? = nil) -> Ruling {
        judge.decide(
            incoming(bearer ?? self.bearer), trust: &trust, environment: environment,
            at: RulingTime(
                monotonic: MonotonicTime(nanoseconds: 1).advanced(by: .seconds(seconds)),
                wallSeconds: Int64(Date().timeIntervalSince1970) + Int64(seconds)))
    }

    /// The refusal that a good alert gets with these changes; nil when it is accepted.
    func refusal(
        _ changes: [String: String?] = [:], token: String = deviceToken("ab"), method: String = "POST",
        path: String? = nil, extra: [(name: String, value: String)] = [], body: [UInt8] = plainBody
    ) -> Rejection? {
        let ruling = send { bearer in
            request(
                ["authorization": bearer].merging(changes) { $1 }, token: token, method: method, path: path,
                extra: extra, body: body)
        }
        return ruling.rejection
    }

    /// The refusal that this provider token gets.
    func refusal(bearer: String?) -> Rejection? {
        send { _ in request(["authorization": bearer]) }.rejection
    }
}

extension Ruling {
    /// The refusal, when the request is answered with one.
    var rejection: Rejection? {
        if case .answer(let answer) = decision { answer.rejection } else { nil }
    }
}
