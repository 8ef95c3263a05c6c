// Looks at every state that a model can come into, nearest first, so that the way to the first fault is a shortest one.

import PushModel

/// What an exploration has found.
struct Exploration {
    let states: Int
    let steps: Int
    /// How many states have the notification finished and everything at rest.
    let ends: Int
    /// What has happened at least once.
    let verbs: Set<Action.Verb>
    /// Nil when every state is as it must be, and from every state the end can be reached.
    let counterexample: Counterexample?
}

/// A shortest way into a state that must not be.
struct Counterexample {
    let reason: String
    let breach: Breach
    let path: [(action: Action, before: QueueState, after: QueueState)]
}

struct Explorer {
    let model: QueueModel
    /// More states than this are a mistake in the model, not something to wait for.
    let limit: Int
    private var states: [QueueState] = []
    /// Where a state stands, by its hash; a table of our own, since in a debug build a dictionary copies its keys again and again.
    private var hashes: [Int] = []
    private var table = [Int32](repeating: -1, count: 1 << 12)
    private var parents: [Int32] = []
    private var actions: [Action] = []
    /// Whether the workers' names were exchanged on the way into the state.
    private var swaps: [Bool] = []
    /// Steps that lead on without faults, by their ends.
    private var sources: [Int32] = []
    private var targets: [Int32] = []
    private var steps = 0
    private var verbs: Set<Action.Verb> = []

    init(_ model: QueueModel, limit: Int = 300_000) {
        self.model = model
        self.limit = limit
    }

    /// Explores all states, or up to the first that breaks an invariant.
    mutating func run() -> Exploration {
        let start = model.start.representative.state
        _ = place(of: start)
        add(start, from: -1, by: Action(verb: .tick), isSwapped: false)
        var number = 0
        while number < states.count {
            if let breach = expand(number) {
                return found(Counterexample(reason: breach.text, breach: breach, path: path(to: states.count - 1)))
            }
            if states.count > limit {
                return found(Counterexample(reason: "more states than \(limit)", breach: .none, path: []))
            }
            number += 1
        }
        guard let stuck = firstStuck() else { return found(nil) }
        let reason = "from here the notification never comes to its end, whatever happens"
        return found(Counterexample(reason: reason, breach: .none, path: carriedOn(path(to: stuck))))
    }

    /// Lets what is under way come to its end, so that a reader sees what is left in the end.
    private func carriedOn(
        _ path: [(action: Action, before: QueueState, after: QueueState)]
    ) -> [(action: Action, before: QueueState, after: QueueState)] {
        var path = path
        while let state = path.last?.after, path.count < 100 {
            var next: (Action, QueueState)?
            model.successors(of: state) { action, after in
                let isOnItsWay = action.verb == .goOn || action.verb == .commit || action.verb == .finalise
                if next == nil, isOnItsWay { next = (action, after) }
            }
            guard let next else { break }
            path.append((next.0, state, next.1))
        }
        return path
    }

    private mutating func add(_ state: QueueState, from: Int, by action: Action, isSwapped: Bool) {
        states.append(state)
        parents.append(Int32(from))
        actions.append(action)
        swaps.append(isSwapped)
    }

    private mutating func expand(_ number: Int) -> Breach? {
        let state = states[number]
        var found: [(Action, QueueState)] = []
        model.successors(of: state) { found.append(($0, $1)) }
        steps += found.count
        for (action, next) in found {
            verbs.insert(action.verb)
            let (target, isSwapped) = next.representative
            let place = place(of: target)
            if place == states.count {
                add(target, from: number, by: action, isSwapped: isSwapped)
                let breach = model.breach(state, next)
                if breach != .none { return breach }
            }
            if action.isProgress {
                sources.append(Int32(number))
                targets.append(Int32(place))
            }
        }
        return nil
    }

    /// The number of a state; of a new one that which it gets.
    private mutating func place(of state: QueueState) -> Int {
        if hashes.count * 2 > table.count { growTable() }
        let hash = state.hashValue
        var slot = hash & (table.count - 1)
        while table[slot] >= 0 {
            let number = Int(table[slot])
            if hashes[number] == hash && states[number] == state { return number }
            slot = (slot + 1) & (table.count - 1)
        }
        table[slot] = Int32(states.count)
        hashes.append(hash)
        return states.count
    }

    private mutating func growTable() {
        table = [Int32](repeating: -1, count: table.count * 4)
        for number in hashes.indices {
            var slot = hashes[number] & (table.count - 1)
            while table[slot] >= 0 { slot = (slot + 1) & (table.count - 1) }
            table[slot] = Int32(number)
        }
    }

    private func found(_ counterexample: Counterexample?) -> Exploration {
        var ends = 0
        for state in states where model.isAtRest(state) { ends += 1 }
        return Exploration(states: states.count, steps: steps, ends: ends, verbs: verbs, counterexample: counterexample)
    }

    /// The nearest state from which no step without faults leads to the end.
    private func firstStuck() -> Int? {
        // The steps, sorted by where they lead.
        var starts = [Int32](repeating: 0, count: states.count + 1)
        for target in targets { starts[Int(target) + 1] += 1 }
        for number in 1..<starts.count { starts[number] += starts[number - 1] }
        var places = starts
        var before = [Int32](repeating: 0, count: targets.count)
        for edge in targets.indices {
            let target = Int(targets[edge])
            before[Int(places[target])] = sources[edge]
            places[target] += 1
        }
        var reaches = [Bool](repeating: false, count: states.count)
        var open: [Int32] = []
        for number in states.indices where model.isAtRest(states[number]) {
            reaches[number] = true
            open.append(Int32(number))
        }
        while let number = open.popLast() {
            for place in starts[Int(number)]..<starts[Int(number) + 1] {
                let source = before[Int(place)]
                if reaches[Int(source)] { continue }
                reaches[Int(source)] = true
                open.append(source)
            }
        }
        return reaches.firstIndex(of: false)
    }

    /// The way into a state, with the names that the workers had at the start.
    private func path(to number: Int) -> [(action: Action, before: QueueState, after: QueueState)] {
        var numbers: [Int] = []
        var number = number
        while number > 0 {
            numbers.append(number)
            number = Int(parents[number])
        }
        var isSwapped = false
        var before = states[0]
        return numbers.reversed().map { number in
            var action = actions[number]
            if isSwapped { action.party = action.party.swapped }
            isSwapped = isSwapped != swaps[number]
            let after = isSwapped ? states[number].swapped : states[number]
            defer { before = after }
            return (action, before, after)
        }
    }
}
