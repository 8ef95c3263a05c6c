// What an answer means for the device, the unit and the queue: the verdicts of the rules, carried out.

import APNs
import HTTP2
import PushModel
import PushStore
import Reactor

extension SendStage {
    /// Books the end of one request.
    func record(_ outcome: HTTP2Outcome, of unit: UnitInWork, _ index: Int) {
        switch outcome {
        case .answered(let response) where response.status == 200:
            accepted(unit)
        case .answered(let response):
            let answer = APNsResponse.answer(of: response)
            counters.counts.notAccepted += 1
            carryOut(AnswerRules.verdict(answer), answer, of: unit, index)
        case .notProcessed:
            counters.counts.resent += 1
            sendAgain(unit, index)
        case .unknown(let fault):
            counters.counts.unanswered += 1
            unanswered(unit, index, reason: fault.description)
        }
    }

    private func accepted(_ unit: UnitInWork) {
        counters.counts.accepted += 1
        unit.settlement.accepted += 1
        unit.settlement.lastAcceptance = loop.now
        unit.decided()
    }

    private func carryOut(_ verdict: Verdict, _ answer: PushAnswer, of unit: UnitInWork, _ index: Int) {
        if case .deactivate(let asOf) = verdict.device { retire(unit, index, answer, asOf) }
        switch verdict.request {
        case .accepted: accepted(unit)
        case .rejected: reject(unit, index, answer)
        case .retryLater(let kind): retryLater(unit, index, answer, kind)
        case .resend: sendAgain(unit, index)
        case .unknown: unanswered(unit, index, reason: answer.reason)
        case .hold(let scope): hold(unit, index, answer, scope)
        }
    }

    private func reject(_ unit: UnitInWork, _ index: Int, _ answer: PushAnswer) {
        unit.settlement.rejected += 1
        unit.settlement.error = unit.settlement.error ?? answer.label
        book(unit, index, answer, isFinal: true)
        unit.decided()
    }

    private func retire(_ unit: UnitInWork, _ index: Int, _ answer: PushAnswer, _ asOf: Int64?) {
        let device = unit.device(index)
        // A token given by value and not registered has no row to retire.
        guard device > 0 else { return }
        unit.settlement.retirements.append(
            Retirement(device: device, reason: answer.label, asOf: asOf, sentAt: unit.claimed))
    }

    private func retryLater(_ unit: UnitInWork, _ index: Int, _ answer: PushAnswer, _ kind: RetryKind) {
        let decision = retry.decide(
            kind, attempt: Int(unit.work.attempt), retryAfter: answer.retryAfter, using: &random)
        guard case .again(let delay) = decision else { return reject(unit, index, answer) }
        book(unit, index, answer, isFinal: false)
        requeue(unit, index, Requeue(state: .ready, isCharged: true, delay: delay))
    }

    /// The push was written and no answer came: repeated with the same ids, unless it may arrive at most once.
    private func unanswered(_ unit: UnitInWork, _ index: Int, reason: String) {
        let answer = PushAnswer(status: 0, reason: reason)
        if !unit.work.atMostOnce {
            let decision = retry.decide(.unanswered, attempt: Int(unit.work.attempt), using: &random)
            if case .again(let delay) = decision {
                book(unit, index, answer, isFinal: false)
                return requeue(unit, index, Requeue(state: .ready, isCharged: true, delay: delay))
            }
        }
        unit.settlement.unknown += 1
        unit.settlement.error = unit.settlement.error ?? reason
        book(unit, index, answer, isFinal: true)
        unit.decided()
    }

    /// The fault is not the device's: it waits, uncharged, until its scope is sent to again.
    private func hold(_ unit: UnitInWork, _ index: Int, _ answer: PushAnswer, _ scope: PauseScope) {
        let pause = ScopePause(
            app: unit.work.content.app, environment: scope.namesEnvironment ? unit.environment(of: index) : nil,
            topic: scope.namesTopic ? unit.topic : nil, reason: answer.label)
        book(unit, index, answer, isFinal: false)
        requeue(
            unit, index,
            Requeue(
                state: .parked, isCharged: false, delay: .zero, environment: pause.environment, topic: pause.topic))
        self.pause(pause)
    }

    private func requeue(_ unit: UnitInWork, _ index: Int, _ requeue: Requeue) {
        unit.addRequeue(requeue, devices: [unit.device(index)])
        unit.decided()
    }

    private func book(_ unit: UnitInWork, _ index: Int, _ answer: PushAnswer, isFinal: Bool) {
        unit.settlement.failures.append(
            DeviceFailure(
                device: unit.device(index), token: unit.token(index), environment: unit.environment(of: index),
                status: answer.status, reason: answer.label, isFinal: isFinal, time: loop.now))
    }
}

extension PushAnswer {
    /// The reason, or the status where there was no readable one; never empty.
    var label: String { reason.isEmpty ? "HTTP \(status)" : reason }
}
