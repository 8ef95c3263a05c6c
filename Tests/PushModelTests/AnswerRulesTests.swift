// Every row of the table against what stands in ExpectedAnswers, and what holds for all.

import ExpectedAnswers
import PushModel
import Testing

@Suite struct AnswerRulesTests {
    @Test(arguments: ExpectedAnswer.all)
    func row(_ expected: ExpectedAnswer) {
        let answer = PushAnswer(
            status: expected.status, reason: expected.reason, timestamp: 1_700_000_000_123)
        #expect(AnswerRules.verdict(answer) == expected.first)
        #expect(AnswerRules.verdict(answer, resends: 1) == expected.repeated)
        #expect(AnswerRules.verdict(answer, resends: 200) == expected.repeated)
    }

    @Test func everyDocumentedReasonIsKnown() {
        for expected in ExpectedAnswer.all where !["", "SomethingNew"].contains(expected.reason) {
            #expect(AnswerRules.isKnown(expected.reason))
        }
        #expect(AnswerRules.knownReasons.isSubset(of: ExpectedAnswer.all.map(\.reason)))
        #expect(!AnswerRules.isKnown("SomethingNew"))
        #expect(!AnswerRules.isKnown(""))
    }

    private var everyAnswer: [PushAnswer] {
        let reasons = Set(ExpectedAnswer.all.map(\.reason))
        return [0, 100, 200, 204, 302, 400, 401, 403, 404, 405, 408, 410, 413, 421, 429, 500, 503, 511, 999, -1]
            .flatMap { status in reasons.sorted().map { PushAnswer(status: status, reason: $0, timestamp: 7) } }
    }

    @Test func onlyA410WithAReasonRetiresAndOnlyThreeAnswersPropose() {
        for answer in everyAnswer {
            for resends in 0...2 {
                switch AnswerRules.verdict(answer, resends: resends).device {
                case .keep: break
                case .deactivate(let time):
                    #expect(answer.status == 410 && !answer.reason.isEmpty)
                    #expect(time == 7)
                case .propose:
                    #expect(
                        answer.status == 400 && ["BadDeviceToken", "DeviceTokenNotForTopic"].contains(answer.reason)
                            || answer.status == 410 && answer.reason.isEmpty)
                }
            }
        }
    }

    @Test func onlyA200IsAccepted() {
        for answer in everyAnswer {
            #expect((AnswerRules.verdict(answer).request == .accepted) == (answer.status == 200))
        }
    }

    @Test func nothingIsResentForEver() {
        for answer in everyAnswer {
            #expect(AnswerRules.verdict(answer, resends: 1).request != .resend)
            #expect(AnswerRules.verdict(answer, resends: 1).connection != .retoken)
        }
    }

    @Test func anAnswerIsNeverUnknown() {
        for answer in everyAnswer { #expect(AnswerRules.verdict(answer).request != .unknown) }
    }

    @Test func noNotificationIsLostToACredential() {
        for answer in everyAnswer where answer.status == 403 {
            #expect(AnswerRules.verdict(answer).request != .rejected)
            #expect(AnswerRules.verdict(answer, resends: 1).request != .rejected)
        }
    }

    @Test func aReasonUnderAnotherStatusMayHoldButNotReject() {
        let held = PushAnswer(status: 400, reason: "InvalidProviderToken")
        #expect(AnswerRules.verdict(held, resends: 1).request == .hold(.credential))
        let device = PushAnswer(status: 500, reason: "BadDeviceToken")
        #expect(AnswerRules.verdict(device) == Verdict(.retryLater(.server), connection: .replace))
        let gone = PushAnswer(status: 400, reason: "Unregistered", timestamp: 1)
        #expect(AnswerRules.verdict(gone) == Verdict(.rejected, concern: .defect))
    }

    @Test func F14_timeOfA410() {
        #expect(
            AnswerRules.verdict(PushAnswer(status: 410, reason: "Unregistered")).device == .deactivate(asOf: nil))
    }

    @Test func F09_tooManyTokenUpdatesKeepTheTokenAndEveryRow() {
        let answer = PushAnswer(status: 429, reason: "TooManyProviderTokenUpdates")
        for resends in 0...3 {
            let verdict = AnswerRules.verdict(answer, resends: resends)
            #expect(verdict.connection == .freezeToken)
            #expect(verdict.request == (resends == 0 ? .resend : .hold(.credential)))
            #expect(verdict.device == .keep)
        }
    }

    @Test func farewellsHoldAsTheAnswerWould() {
        func farewell(_ reason: String, repeats: Int = 0) -> RequestFate? {
            AnswerRules.verdict(goAwayReason: reason, repeats: repeats)?.request
        }
        #expect(farewell("BadCertificateEnvironment") == .hold(.environment))
        #expect(farewell("BadCertificate") == .hold(.credential))
        // One try on a new connection with a new token, then a person has to look.
        #expect(AnswerRules.verdict(goAwayReason: "ExpiredProviderToken")?.connection == .retoken)
        #expect(farewell("ExpiredProviderToken", repeats: 1) == .hold(.credential))
        #expect(AnswerRules.verdict(goAwayReason: "TooManyProviderTokenUpdates")?.connection == .freezeToken)
        #expect(farewell("InvalidProviderToken") == nil)
        #expect(farewell("InvalidProviderToken", repeats: 1) == .hold(.credential))
    }

    /// A connection says nothing about a notification, a topic or a device.
    @Test(arguments: [
        "Shutdown", "IdleTimeout", "BadDeviceToken", "Unregistered", "TopicDisallowed", "PayloadTooLarge",
        "ServiceUnavailable", "TooManyRequests", "Maximum active streams violated", "",
    ])
    func farewellsThatHoldNothing(_ reason: String) {
        for repeats in 0...2 { #expect(AnswerRules.verdict(goAwayReason: reason, repeats: repeats) == nil) }
    }

    @Test func aGatewayFailsByAnswers5xxAndBySilenceAndNotByGoodbyes() {
        #expect(Verdict.unanswered.isGatewayFault && !Verdict.notProcessed.isGatewayFault)
        func isFault(_ status: Int, _ reason: String = "", resends: Int = 0) -> Bool {
            AnswerRules.verdict(PushAnswer(status: status, reason: reason), resends: resends).isGatewayFault
        }
        for resends in 0...1 {
            #expect(isFault(500, "InternalServerError", resends: resends))
            #expect(isFault(503, "ServiceUnavailable", resends: resends))
            #expect(isFault(502, "<html>", resends: resends) && isFault(504, resends: resends))
            #expect(!isFault(503, "Shutdown", resends: resends))
        }
        // Whatever else it says, it works.
        for answer in everyAnswer where [200, 410, 413, 429].contains(answer.status) {
            guard !["InternalServerError", "ServiceUnavailable"].contains(answer.reason) else { continue }
            #expect(!AnswerRules.verdict(answer).isGatewayFault, "\(answer)")
        }
        #expect(!isFault(403, "InvalidProviderToken", resends: 1) && !isFault(400, "BadDeviceToken") && !isFault(404))
    }

    @Test func scopesNameWhatTheyCover() {
        #expect(PauseScope.allCases.filter(\.namesTopic) == [.topic])
    }

    @Test func endsWithoutAnswer() {
        #expect(Verdict.notProcessed.request == .resend)
        #expect(Verdict.unanswered.request == .unknown)
        for verdict in [Verdict.notProcessed, .unanswered, .accepted] {
            #expect(verdict.device == .keep)
            #expect(verdict.connection == .keep)
        }
    }
}
