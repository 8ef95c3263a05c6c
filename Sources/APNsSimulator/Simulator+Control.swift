// Control commands, carried out. Every command is answered by one line that begins with `ok` or `error`.

import HTTP2
import Reactor

/// Somebody who waits for a count.
struct Waiter {
    let id: Int
    let milestone: ControlCommand.Milestone
    let count: Int
    let reply: (String) -> Void
}

extension Simulator {
    /// Carries out one line of control; `reply` is called once, perhaps later.
    package func control(_ line: String, reply: @escaping (String) -> Void) {
        let (tag, text) = Simulator.splitTag(line)
        let reply: (String) -> Void = { answer in reply(tag + answer) }
        do throws(SimulatorError) {
            let command = try ControlCommand(text)
            journal.noteControl(text)
            planTurn()
            carryOut(command, reply)
        } catch {
            reply("error \(error)")
        }
    }

    private static func splitTag(_ line: String) -> (String, String) {
        guard line.hasPrefix("#"), let blank = line.firstIndex(of: " ") else { return ("", line) }
        return (String(line[...blank]), String(line[line.index(after: blank)...]))
    }

    private func carryOut(_ command: ControlCommand, _ reply: @escaping (String) -> Void) {
        switch command {
        case .help: reply("ok " + ControlCommand.manual.map(\.0).joined(separator: "; "))
        case .set(let name, let value): reply(set(name, value))
        case .get(let name): reply(get(name))
        case .calm:
            change { $0 = climate }
            reply("ok")
        case .counts: reply("ok \(judge.tally.json)")
        case .connections: reply("ok \(connectionsAsJSON)")
        case .await(let milestone, let count, let time): wait(for: milestone, count, time, reply)
        case .answerHeld: reply("ok \(answerHeld())")
        case .expireTokens:
            judge.expireKnownTokens()
            reply("ok \(judge.weather.tokens.expiredUpTo)")
        case .revoke(let key, let isRevoked):
            reply(judge.registry.setRevoked(isRevoked, key: key) ? "ok" : "error no key \(key)")
        case .forget:
            judge.forget()
            reply("ok")
        case .quit:
            reply("ok")
            onQuit()
        case .goAway(let target): reply(each(target) { planGoAway(GoAway(judge.weather), $0) })
        case .close(let target): reply(each(target) { $0.end(.notify, cause: "control") })
        case .abort(let target): reply(each(target) { $0.end(.abort, cause: "control") })
        case .finish(let target): reply(each(target) { $0.end(.fin, cause: "control") })
        case .alert(let target): reply(each(target) { $0.end(.alert, cause: "control") })
        case .mute(let target): reply(each(target) { $0.mute() })
        }
    }

    // MARK: Weather

    private func change(_ body: (inout Weather) -> Void) {
        // Which provider tokens have expired is no matter of the weather.
        let expired = judge.weather.tokens.expiredUpTo
        body(&judge.weather)
        judge.weather.tokens.expiredUpTo = expired
        weatherChanged()
    }

    private func set(_ name: String, _ value: String) -> String {
        guard let setting = WeatherSetting.named(name) else { return "error there is no setting \(name)" }
        var trial = judge.weather
        _ = setting.apply(&trial, value)
        // A certificate that cannot be made leaves everything as it is.
        do { _ = try context(for: trial.face) } catch { return "error \(error)" }
        change { $0 = trial }
        return "ok"
    }

    private func get(_ name: String?) -> String {
        let settings = WeatherSetting.table.filter { name == nil || $0.name == name }
        guard !settings.isEmpty else { return "error there is no setting \(name ?? "")" }
        return "ok " + settings.map { "\($0.name)=\($0.show(judge.weather))" }.joined(separator: " ")
    }

    // MARK: Connections

    private func each(_ target: ControlCommand.Target, _ act: (ServedConnection) -> Void) -> String {
        let chosen = connections.values.sorted { $0.number < $1.number }.filter { served in
            if case .connection(let number) = target { served.number == number } else { true }
        }
        if case .connection(let number) = target, chosen.isEmpty { return "error no connection \(number)" }
        for served in chosen { act(served) }
        return "ok \(chosen.count)"
    }

    /// Answers everything that is held, however long it should have waited.
    private func answerHeld() -> Int {
        var count = 0
        for served in connections.values.sorted(by: { $0.number < $1.number }) where !served.isMute {
            for stream in served.held.keys.sorted() {
                release(stream, served, accepting(served.held[stream]))
                count += 1
            }
        }
        return count
    }

    /// A plain answer; what has been done to a channel is said in it.
    private func accepting(_ judged: JudgedRequest?) -> Answer {
        var answer = Answer()
        if case .answer(let meant)? = judged?.ruling.decision { answer.channel = meant.channel }
        return answer
    }

    private var connectionsAsJSON: String {
        let levels = judge.weather.levels
        let lines = connections.values.sorted { $0.number < $1.number }.map { served in
            "{\"connection\":\(served.number),\"environment\":\"\(served.place.rawValue)\","
                + "\"requests\":\(served.requests),\"held\":\(served.held.count),"
                + "\"limit\":\(served.limit.value(levels)),\"going_away\":\(served.isGoingAway),"
                + "\"mute\":\(served.isMute),\"wedged\":\(served.trust.wedge != nil),"
                + "\"certificate\":\(served.trust.certificate != nil)}"
        }
        return "[\(lines.joined(separator: ","))]"
    }

    // MARK: Waiting

    private func wait(
        for milestone: ControlCommand.Milestone, _ count: Int, _ milliseconds: Int, _ reply: @escaping (String) -> Void
    ) {
        if value(of: milestone) >= count { return reply("ok \(value(of: milestone))") }
        let id = nextWaiter
        nextWaiter += 1
        waiters.append(Waiter(id: id, milestone: milestone, count: count, reply: reply))
        loop.schedule(after: .milliseconds(milliseconds)) { [weak self] in
            guard let self, let place = waiters.firstIndex(where: { $0.id == id }) else { return }
            let waiter = waiters.remove(at: place)
            waiter.reply("error only \(value(of: milestone)) \(milestone.rawValue)")
        }
    }

    /// Answers those whose count is reached; called after the answers of a turn were given away.
    func checkWaiters() {
        guard !waiters.isEmpty else { return }
        let reached = waiters.filter { value(of: $0.milestone) >= $0.count }
        waiters.removeAll { value(of: $0.milestone) >= $0.count }
        for waiter in reached { waiter.reply("ok \(value(of: waiter.milestone))") }
    }

    private func value(of milestone: ControlCommand.Milestone) -> Int {
        switch milestone {
        case .requests: judge.tally.requests
        case .answered: judge.tally.answered
        case .accepted: judge.tally.accepted
        case .unanswered: judge.tally.unanswered
        case .held: connections.values.reduce(0) { $0 + $1.held.count }
        case .knocks: judge.tally.knocks
        case .opened: judge.tally.opened
        case .closed: judge.tally.closed
        case .open: connections.count
        }
    }
}
