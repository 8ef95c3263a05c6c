// What comes in an answer. Its scanner is lenient by intent; where a body is JSON by the book, another reader has to find the same
// in it. What follows from an answer is held against the few sentences that must never be broken.

import APNs
import APNsSimulator
import Glibc
import PushModel

enum AnswerSurface {
    static func examine(_ bytes: [UInt8]) throws(Finding) {
        let body = AnswerBody(bytes)
        try examineText(body.reason)
        try examineTimestamp(body.timestamp)
        if bytes.count <= 4096, let members = JSONText(bytes)?.members { try compare(body, members) }
        for status in [200, 400, 403, 404, 410, 413, 429, 500, 503, Int(bytes.first ?? 0) << 2] {
            for resends in 0...1 { try examineVerdict(status, body, resends) }
        }
        try examineFarewell(bytes)
        try examineRetryAfter(String(decoding: bytes, as: UTF8.self))
    }

    // MARK: The body

    private static func examineText(_ text: String) throws(Finding) {
        let scalars = Array(text.unicodeScalars)
        try require(scalars.count <= CleanText.limit, "a reason is short", text)
        try require(
            !scalars.contains { $0.value < 0x20 || (0x7f..<0xa0).contains($0.value) },
            "a reason has no control character",
            text)
        try require(scalars.first != " " && scalars.last != " ", "a reason has no margin", text)
        try require(
            Array(CleanText.cleaned(text.utf8).utf8) == Array(text.utf8), "cleaning what is clean changes nothing", text
        )
    }

    private static func examineTimestamp(_ timestamp: Int64?) throws(Finding) {
        guard let timestamp else { return }
        try require(
            (1_199_145_600_000...4_102_444_800_999).contains(timestamp), "a timestamp lies between 2008 and 2100",
            "\(timestamp)")
    }

    private static func compare(_ body: AnswerBody, _ members: [JSONText.Member]) throws(Finding) {
        let reason = members.last { $0.key == "reason" && $0.value.text != nil }?.value.text ?? ""
        let expected = CleanText.cleaned(reason.utf8)
        try require(
            Array(body.reason.utf8) == Array(expected.utf8), "a reason is what any reader of JSON finds",
            "\(body.reason) instead of \(expected)")
        let number = members.last { $0.key == "timestamp" }?.value.whole ?? 0
        let milliseconds =
            switch number {
            case 1_199_145_600_000...4_102_444_800_999: number
            case 1_199_145_600...4_102_444_800: number * 1000
            default: Int64?.none
            }
        try require(
            body.timestamp == milliseconds, "a timestamp is what any reader of JSON finds",
            "\(String(describing: body.timestamp)) instead of \(String(describing: milliseconds))")
    }

    // MARK: What follows

    private static func examineVerdict(_ status: Int, _ body: AnswerBody, _ resends: Int) throws(Finding) {
        let answer = PushAnswer(status: status, reason: body.reason, timestamp: body.timestamp)
        let verdict = AnswerRules.verdict(answer, resends: resends)
        // Only made when it is needed: it costs more than all the rest.
        var what: String { "\(status) \(body.reason): \(verdict)" }
        try require((verdict.request == .accepted) == (status == 200), "only a 200 is accepted", what)
        switch verdict.device {
        case .keep: break
        case .deactivate(let time):
            try require(
                status == 410 && !body.reason.isEmpty && time == body.timestamp,
                "only a 410 with a reason retires a device", what)
        case .propose:
            try require(
                status == 400 && ["BadDeviceToken", "DeviceTokenNotForTopic"].contains(body.reason)
                    || status == 410 && body.reason.isEmpty,
                "only two reasons, and a 410 without one, propose to retire a device", what)
        }
        if verdict.notification == .hopeless {
            try require([400, 413].contains(status), "only the content's own faults give up the rest", what)
        }
        if verdict.request == .rejected {
            try require(
                (400..<500).contains(status) && ![401, 403, 408, 421, 429].contains(status),
                "what is not the request's own fault does not reject it", what)
        }
    }

    private static func examineFarewell(_ bytes: [UInt8]) throws(Finding) {
        let farewell = Farewell(debugData: bytes)
        try examineText(farewell.reason)
        for repeats in 0...1 {
            guard let verdict = farewell.verdict(repeats: repeats) else { continue }
            var what: String { "\(farewell.reason): \(verdict)" }
            try require(AnswerRules.isKnown(farewell.reason), "only a reason that is known means anything", what)
            try require(
                verdict.device == .keep && verdict.notification == .carryOn, "a farewell concerns no device", what)
            switch verdict.request {
            case .resend: break
            case .hold(let scope): try require(scope != .topic, "a farewell concerns no topic", what)
            default: try require(false, "a farewell only holds or sends again", what)
            }
        }
    }

    private static func examineRetryAfter(_ text: String) throws(Finding) {
        let now: Int64 = 1_700_000_000
        guard let wait = RetryAfter.duration(text, now: now) else { return }
        try require(wait >= .zero, "a wait is not negative", "\(wait)")
        if let date = unixSeconds(text) {
            try require(wait == .seconds(date - now), "a date is the date", "\(wait) instead of \(date - now) s")
        }
        // However long it is, the policy bounds it.
        var random = TextGenerator(state: UInt64(text.utf8.count))
        let policy = RetryPolicy()
        for kind in RetryKind.allCases {
            guard case .again(let after) = policy.decide(kind, attempt: 1, retryAfter: wait, using: &random) else {
                continue
            }
            let limit = max(policy.longestRetryAfter + .seconds(30), RetryPolicy.range(kind, attempt: 1).upperBound)
            try require(after <= limit, "a wait is bounded", "\(after)")
        }
    }

    /// The same by place and by the C library (`timegm`), for a text that has the form to the letter.
    private static func unixSeconds(_ text: String) -> Int64? {
        let utf8 = Array(text.utf8)
        guard utf8.count == 29, utf8[25...].elementsEqual(" GMT".utf8) else { return nil }
        func number(_ from: Int, _ count: Int) -> Int32? {
            Int32(String(decoding: utf8[from..<from + count], as: UTF8.self))
        }
        let months = "JanFebMarAprMayJunJulAugSepOctNovDec"
        let name = String(decoding: utf8[8..<11], as: UTF8.self)
        guard let place = stride(from: 0, to: 36, by: 3).first(where: { months.dropFirst($0).hasPrefix(name) }),
            let day = number(5, 2), let year = number(12, 4), let hour = number(17, 2), let minute = number(20, 2),
            let second = number(23, 2)
        else { return nil }
        var parts = tm()
        (parts.tm_year, parts.tm_mon, parts.tm_mday) = (year - 1900, Int32(place / 3), day)
        (parts.tm_hour, parts.tm_min, parts.tm_sec) = (hour, minute, second)
        return Int64(timegm(&parts))
    }
}

/// Random enough, and the same for the same input (xorshift64*).
private struct TextGenerator: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state == 0 ? 0x9e37_79b9_7f4a_7c15 : state
        state ^= state >> 12
        state ^= state << 25
        state ^= state >> 27
        return state &* 0x2545_f491_4f6c_dd1d
    }
}
