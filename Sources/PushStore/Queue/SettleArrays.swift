// The parameters of the SQL function settle: many units as parallel arrays, built element by element in one go.

import Postgres
import PushModel
import Reactor

/// The parallel arrays that the SQL function takes, built element by element.
struct SettleArrays: ~Copyable {
    private var notification = PostgresArrayBuilder(.int8)
    private var batch = PostgresArrayBuilder(.int4)
    private var epoch = PostgresArrayBuilder(.int4)
    private var isDone = PostgresArrayBuilder(.bool)
    private var doneThrough = PostgresArrayBuilder(.int8)
    private var accepted = PostgresArrayBuilder(.int4)
    private var rejected = PostgresArrayBuilder(.int4)
    private var unknown = PostgresArrayBuilder(.int4)
    private var acceptedAge = PostgresArrayBuilder(.int4)
    private var error = PostgresArrayBuilder(.text)

    private var failureUnit = PostgresArrayBuilder(.int4)
    private var failureDevice = PostgresArrayBuilder(.int8)
    private var failureToken = PostgresArrayBuilder(.text)
    private var failureEnvironment = PostgresArrayBuilder(.text)
    private var failureStatus = PostgresArrayBuilder(.int4)
    private var failureReason = PostgresArrayBuilder(.text)
    private var failureIsFinal = PostgresArrayBuilder(.bool)
    private var failureAge = PostgresArrayBuilder(.int4)

    private var retiredUnit = PostgresArrayBuilder(.int4)
    private var retiredDevice = PostgresArrayBuilder(.int8)
    private var retiredReason = PostgresArrayBuilder(.text)
    private var retiredBefore = PostgresArrayBuilder(.timestamptz)
    private var retiredAge = PostgresArrayBuilder(.int4)

    private var requeueUnit = PostgresArrayBuilder(.int4)
    private var requeueState = PostgresArrayBuilder(.text)
    private var requeueIsCharged = PostgresArrayBuilder(.bool)
    private var requeueDelay = PostgresArrayBuilder(.int4)
    private var requeueEnvironment = PostgresArrayBuilder(.text)
    private var requeueTopic = PostgresArrayBuilder(.text)
    private var movedRequeue = PostgresArrayBuilder(.int4)
    private var movedDevice = PostgresArrayBuilder(.int8)

    private var scopeApp = PostgresArrayBuilder(.text)
    private var scopeEnvironment = PostgresArrayBuilder(.text)
    private var scopeTopic = PostgresArrayBuilder(.text)
    private var weighedUnit = PostgresArrayBuilder(.int4)
    private var weighedScope = PostgresArrayBuilder(.int4)
    private var weighedAccepted = PostgresArrayBuilder(.int4)
    private var weighedAnswered = PostgresArrayBuilder(.int4)
    private var proposedUnit = PostgresArrayBuilder(.int4)
    private var proposedScope = PostgresArrayBuilder(.int4)
    private var proposedDevice = PostgresArrayBuilder(.int8)
    private var proposedReason = PostgresArrayBuilder(.text)
    private var proposedAge = PostgresArrayBuilder(.int4)
    /// The numbers of the scopes, from 1.
    private var scopes: [TokenScope: Int64] = [:]

    private let now = MonotonicTime.now()

    // How long ago, in milliseconds: the database turns it into a time by its own clock.
    private func age(_ time: MonotonicTime) -> Int64 {
        min(Int64(Int32.max), max(0, now.since(time).millisecondsRoundedUp))
    }

    mutating func add(_ unit: UnitSettlement, number: Int64) {
        notification.append(unit.key.notification)
        batch.append(Int64(unit.key.batch))
        epoch.append(Int64(unit.key.epoch))
        isDone.append(unit.isDone)
        if let through = unit.doneThrough { doneThrough.append(through) } else { doneThrough.appendNull() }
        accepted.append(Int64(unit.accepted))
        rejected.append(Int64(unit.rejected))
        unknown.append(Int64(unit.unknown))
        if let last = unit.lastAcceptance { acceptedAge.append(age(last)) } else { acceptedAge.appendNull() }
        error.append(optional: unit.error)
        for failure in unit.failures { add(failure, number) }
        for retirement in unit.retirements { add(retirement, number) }
        for requeue in unit.requeues { add(requeue, number) }
        if let evidence = unit.evidence { add(evidence, unit.proposals, number) }
    }

    /// Only what was answered has weight.
    private mutating func add(_ evidence: TokenEvidence, _ proposals: [Proposal], _ number: Int64) {
        for environment in PushEnvironment.allCases {
            let answers = evidence[environment]
            guard answers.answered > 0 else { continue }
            let scope = scope(TokenScope(app: evidence.app, environment: environment, topic: evidence.topic))
            weighedUnit.append(number)
            weighedScope.append(scope)
            weighedAccepted.append(Int64(answers.accepted))
            weighedAnswered.append(Int64(answers.answered))
            for proposal in proposals where proposal.environment == environment {
                proposedUnit.append(number)
                proposedScope.append(scope)
                proposedDevice.append(proposal.device)
                proposedReason.append(proposal.reason)
                proposedAge.append(age(proposal.sentAt))
            }
        }
    }

    private mutating func scope(_ scope: TokenScope) -> Int64 {
        if let number = scopes[scope] { return number }
        let number = Int64(scopes.count + 1)
        scopes[scope] = number
        scopeApp.append(scope.app)
        scopeEnvironment.append(scope.environment.rawValue)
        scopeTopic.append(scope.topic)
        return number
    }

    private mutating func add(_ failure: DeviceFailure, _ number: Int64) {
        failureUnit.append(number)
        failureDevice.append(failure.device)
        failureToken.append(failure.token)
        failureEnvironment.append(failure.environment.rawValue)
        failureStatus.append(Int64(failure.status))
        failureReason.append(failure.reason)
        failureIsFinal.append(failure.isFinal)
        failureAge.append(age(failure.time))
    }

    private mutating func add(_ retirement: Retirement, _ number: Int64) {
        retiredUnit.append(number)
        retiredDevice.append(retirement.device)
        retiredReason.append(retirement.reason)
        if let asOf = retirement.asOf, let micros = Int64(exactly: Double(asOf) * 1000) {
            retiredBefore.append(timestamp: micros)
        } else {
            retiredBefore.appendNull()
        }
        retiredAge.append(age(retirement.sentAt))
    }

    private mutating func add(_ requeue: Requeue, _ number: Int64) {
        let place = Int64(requeueUnit.count) + 1
        requeueUnit.append(number)
        requeueState.append(requeue.state.rawValue)
        requeueIsCharged.append(requeue.isCharged)
        requeueDelay.append(min(Int64(Int32.max), requeue.delay.millisecondsRoundedUp))
        requeueEnvironment.append(optional: requeue.environment?.rawValue)
        requeueTopic.append(optional: requeue.topic)
        for device in requeue.devices {
            movedRequeue.append(place)
            movedDevice.append(device)
        }
    }

    /// Units, ledger, retirements and requeues, in the order of the SQL function's parameters.
    borrowing func writeUnits(to parameters: inout PostgresParameters) {
        parameters.add(notification)
        parameters.add(batch)
        parameters.add(epoch)
        parameters.add(isDone)
        parameters.add(doneThrough)
        parameters.add(accepted)
        parameters.add(rejected)
        parameters.add(unknown)
        parameters.add(acceptedAge)
        parameters.add(error)
        parameters.add(failureUnit)
        parameters.add(failureDevice)
        parameters.add(failureToken)
        parameters.add(failureEnvironment)
        parameters.add(failureStatus)
        parameters.add(failureReason)
        parameters.add(failureIsFinal)
        parameters.add(failureAge)
        parameters.add(retiredUnit)
        parameters.add(retiredDevice)
        parameters.add(retiredReason)
        parameters.add(retiredBefore)
        parameters.add(retiredAge)
        parameters.add(requeueUnit)
        parameters.add(requeueState)
        parameters.add(requeueIsCharged)
        parameters.add(requeueDelay)
        parameters.add(requeueEnvironment)
        parameters.add(requeueTopic)
        parameters.add(movedRequeue)
        parameters.add(movedDevice)
    }

    /// Scopes, evidence and proposals, in the order of the SQL function's parameters.
    borrowing func writeTokens(to parameters: inout PostgresParameters) {
        parameters.add(scopeApp)
        parameters.add(scopeEnvironment)
        parameters.add(scopeTopic)
        parameters.add(weighedUnit)
        parameters.add(weighedScope)
        parameters.add(weighedAccepted)
        parameters.add(weighedAnswered)
        parameters.add(proposedUnit)
        parameters.add(proposedScope)
        parameters.add(proposedDevice)
        parameters.add(proposedReason)
        parameters.add(proposedAge)
    }
}

/// What a window of the database watches over.
private struct TokenScope: Hashable {
    let app: String
    let environment: PushEnvironment
    let topic: String
}

extension PostgresArrayBuilder {
    /// Appends a text or NULL.
    fileprivate mutating func append(optional text: String?) {
        if let text { append(text) } else { appendNull() }
    }
}
