// What an answer means for the device, the unit and the queue: the verdicts of the rules, carried out.

import APNs
import HTTP2
import PushModel
import PushStore
import Reactor
import Telemetry

extension SendStage {
    /// Books the end of one request.
    func record(_ outcome: HTTP2Outcome, of unit: UnitInWork, _ index: Int) {
        let feed = unit.segments[unit.segment(of: index)].feed
        if case .answered(let response) = outcome, response.status == 200 {
            feed?.accepted(PushFeed.tag(unit, index))
            return acceptedByApple(unit, index)
        }
        let result = PushResult(outcome, resends: unit.resends(of: index), now: DatabaseClock.unixSeconds)
        if case .answered = outcome { counters.counts.notAccepted += 1 }
        feed?.ended(PushFeed.tag(unit, index), outcome, result)
        if case .deactivate(let asOf) = result.verdict.device { retire(unit, index, result, asOf) }
        report(result, unit, index)
        switch result.verdict.request {
        case .accepted: acceptedByApple(unit, index)
        case .rejected where result.verdict.device == .propose: propose(unit, index, result)
        case .rejected: reject(unit, index, result)
        case .retryLater(let kind): retryLater(unit, index, result, kind)
        case .resend: resend(unit, index, outcome)
        case .unknown: unanswered(unit, index, result)
        case .hold(let scope): hold(unit, index, result, scope)
        }
    }

    /// What a person has to put right, or has never seen, is not one line among those of dead tokens; a pause says so itself.
    private func report(_ result: PushResult, _ unit: UnitInWork, _ index: Int) {
        if case .hold = result.verdict.request { return }
        let message: StaticString
        switch result.verdict.concern {
        case .none where result.status == 0 || result.reason.isEmpty || AnswerRules.isKnown(result.reason): return
        case .none: message = "Apple gives a reason that this version does not know; its status decides"
        case .configuration: message = "Apple says that something is set up wrong"
        case .defect: message = "Apple refuses what should not have been sent"
        }
        let app = unit.work.content.app
        guard let omitted = concerns.admit("\(app) \(result.label)", at: loop.now.nanoseconds) else { return }
        logger.error(
            message,
            [
                .app: app, .environment: unit.environment(of: index).rawValue, .topic: unit.topic,
                .notification: unit.work.key.notification, .status: result.status, .reason: result.label,
                .omitted: omitted,
            ])
    }

    private func acceptedByApple(_ unit: UnitInWork, _ index: Int) {
        counters.counts.accepted += 1
        unit.settlement.accepted += 1
        unit.settlement.lastAcceptance = loop.now
        unit.decided(index, .accepted)
    }

    private func reject(_ unit: UnitInWork, _ index: Int, _ result: PushResult) {
        unit.settlement.rejected += 1
        unit.settlement.error = unit.settlement.error ?? result.label
        book(unit, index, result, isFinal: true)
        // What never reached Apple, or was only put off too often, says nothing about the token.
        unit.decided(index, result.verdict.request == .rejected && result.status != 0 ? .rejected : .refused)
        guard result.verdict.notification == .hopeless else { return }
        unit.segments[unit.segment(of: index)].hopeless += 1
        considerGivingUp(unit, result.label)
    }

    /// The token looks dead; whether that is believed, the database decides when it has seen what others were answered.
    private func propose(_ unit: UnitInWork, _ index: Int, _ result: PushResult) {
        guard !unit.isProbe else { return holdAgain(unit, index, result) }
        let device = unit.device(index)
        // A channel has no row to retire.
        guard device != 0 else { return reject(unit, index, result) }
        unit.settlement.proposals.append(
            Proposal(
                device: device, environment: unit.environment(of: index), reason: result.label, sentAt: unit.claimed))
        reject(unit, index, result)
        if unit.settlement.proposals.count.isMultiple(of: Self.proposalsBeforeCheckpoint) {
            callForCheckpoint(of: unit)
        }
    }

    /// A wave of them should stop the others soon.
    private static let proposalsBeforeCheckpoint = 16

    private func retire(_ unit: UnitInWork, _ index: Int, _ result: PushResult, _ asOf: Int64?) {
        let device = unit.device(index)
        // A channel has no row to retire.
        guard device != 0 else { return }
        unit.settlement.retirements.append(
            Retirement(device: device, reason: result.label, asOf: asOf, sentAt: unit.claimed))
    }

    private func retryLater(_ unit: UnitInWork, _ index: Int, _ result: PushResult, _ kind: RetryKind) {
        let decision = retry.decide(
            kind, attempt: Int(unit.work.attempt), retryAfter: result.retryAfter, remaining: unit.remaining,
            using: &random)
        guard case .again(let delay) = decision else { return reject(unit, index, result) }
        book(unit, index, result, isFinal: false)
        requeue(unit, index, Requeue(state: .ready, isCharged: true, delay: delay))
    }

    /// It was certainly not processed: it goes again at once and no attempt is charged.
    private func resend(_ unit: UnitInWork, _ index: Int, _ outcome: HTTP2Outcome) {
        counters.counts.resent += 1
        if case .answered = outcome { unit.askedAgain(index) }
        sendAgain(unit, index)
    }

    /// The push was written and no answer came: repeated with the same ids, unless it may arrive at most once.
    private func unanswered(_ unit: UnitInWork, _ index: Int, _ result: PushResult) {
        counters.counts.unanswered += 1
        if !unit.work.atMostOnce {
            let decision = retry.decide(
                .unanswered, attempt: Int(unit.work.attempt), remaining: unit.remaining, using: &random)
            if case .again(let delay) = decision {
                book(unit, index, result, isFinal: false)
                return requeue(unit, index, Requeue(state: .ready, isCharged: true, delay: delay))
            }
        }
        unit.settlement.unknown += 1
        unit.settlement.error = unit.settlement.error ?? result.label
        book(unit, index, result, isFinal: true)
        unit.decided(index, .unknown)
    }

    /// The fault is not the device's: it waits, uncharged, until its scope is sent to again.
    private func hold(_ unit: UnitInWork, _ index: Int, _ result: PushResult, _ scope: PauseScope) {
        let pause = ScopePause(
            app: unit.work.content.app, environment: unit.environment(of: index),
            topic: scope.namesTopic ? unit.topic : nil, reason: result.label)
        holdAgain(unit, index, result)
        self.pause(pause)
    }

    /// Nobody has told this worker who the app is to this environment: its devices wait, as for a credential that Apple refuses.
    func holdUnserved(_ unit: UnitInWork, _ place: Int) {
        let environment = unit.segments[place].environment
        pause(
            ScopePause(
                app: unit.work.content.app, environment: environment, topic: nil,
                reason: "no credential for \(environment.rawValue) is configured"))
        if unit.isProbe { pauseAgain(unit, unit.segments[place].range.lowerBound) }
        unit.park(place)
    }

    /// Puts a device back among those that wait for their scope.
    private func holdAgain(_ unit: UnitInWork, _ index: Int, _ result: PushResult) {
        book(unit, index, result, isFinal: false)
        // A probe that failed begins the row of good ones anew.
        if unit.isProbe { pauseAgain(unit, index) }
        // The environment is that of the device in any case: a batch holds devices of one environment only.
        requeue(
            unit, index,
            Requeue(
                state: .parked, isCharged: false, delay: .zero, environment: unit.environment(of: index),
                topic: unit.topic))
    }

    private func requeue(_ unit: UnitInWork, _ index: Int, _ requeue: Requeue) {
        unit.addRequeue(requeue, devices: [unit.device(index)])
        unit.decided(index, .moved)
    }

    private func book(_ unit: UnitInWork, _ index: Int, _ result: PushResult, isFinal: Bool) {
        unit.settlement.failures.append(
            DeviceFailure(
                device: unit.device(index), token: unit.token(index), environment: unit.environment(of: index),
                status: result.status, reason: result.label, isFinal: isFinal, time: loop.now))
    }
}

extension PushResult {
    /// The reason, or the status where there was no readable one; never empty.
    var label: String { reason.isEmpty ? "HTTP \(status)" : reason }
}
