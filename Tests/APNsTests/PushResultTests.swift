// From the end of a request to its verdict and its line in the ledger.

import APNs
import PushModel
import Testing

@testable import HTTP2

private func answer(_ status: UInt16, _ body: String = "", retryAfter: String? = nil, resends: Int = 0) -> PushResult {
    let response = HTTP2Response(
        status: status, body: Array(body.utf8), fields: retryAfter.map { [("retry-after", $0)] } ?? [], connection: 1)
    return PushResult(.answered(response), resends: resends, now: 784_111_740)
}

@Suite struct PushResultTests {
    @Test func accepted() {
        #expect(answer(200) == .accepted)
        #expect(answer(200, "<html>") == .accepted)
    }

    @Test func F14_timesComeWithA410Only() {
        let body = #"{"reason":"Unregistered","timestamp":1767225600123}"#
        #expect(answer(410, body).verdict.device == .deactivate(asOf: 1_767_225_600_123))
        #expect(answer(410, #"{"reason":"Unregistered","timestamp":1e20}"#).verdict.device == .deactivate(asOf: nil))
        #expect(answer(400, body).verdict.device == .keep)
    }

    @Test func F15_whateverTheBodyIs() {
        for body in ["", "{}", "<html>Bad Request</html>", "\u{0}", "{\"reason\":"] {
            let result = answer(400, body)
            #expect(result.verdict.request == .rejected)
            #expect(result.verdict.device == .keep)
            #expect(result.status == 400)
            #expect(result.reason.isEmpty)
        }
        let unknown = answer(400, #"{"reason":"SomethingNew\u0000!"}"#)
        #expect(unknown.reason == "SomethingNew !")
        #expect(unknown.verdict.request == .rejected)
    }

    @Test func retryAfterIsRead() {
        let result = answer(503, #"{"reason":"ServiceUnavailable"}"#, retryAfter: "120")
        #expect(result.retryAfter == .seconds(120))
        #expect(result.verdict.request == .retryLater(.server))
        #expect(answer(503, retryAfter: "Sun, 06 Nov 1994 08:49:37 GMT").retryAfter == .seconds(37))
        #expect(answer(503).retryAfter == nil)
    }

    @Test func F10_firstAndRepeated() {
        let body = #"{"reason":"ExpiredProviderToken"}"#
        #expect(answer(403, body).verdict.connection == .retoken)
        #expect(answer(403, body, resends: 1).verdict.request == .hold(.credential))
    }

    @Test func endsWithoutAnAnswer() {
        for code in HTTP2Fault.Code.allCases {
            let fault = HTTP2Fault(code, "x")
            let lost = PushResult(.unknown(fault), resends: 0, now: 0)
            #expect(lost.verdict == .unanswered)
            #expect(lost.status == 0)
            #expect(!lost.reason.isEmpty)
            let unsent = PushResult(.notProcessed(fault), resends: 0, now: 0)
            #expect(unsent.verdict.request == (code == .unsendable ? .rejected : .resend))
            #expect(unsent.verdict.device == .keep)
        }
    }
}
