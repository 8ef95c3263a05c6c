// Keeps tests that need the machine out of one another's way: each takes as many places as the load it makes, first come, first
// served, so that nobody waits for ever.

/// A bounded number of places.
package actor Turnstile {
    private let places: Int
    private var free: Int
    private var waiting: [(places: Int, turn: CheckedContinuation<Void, Never>)] = []

    /// Opens with so many places.
    package init(places: Int) {
        self.places = places
        free = places
    }

    /// Waits for `wanted` places (at most all there are) and takes them.
    package func enter(_ wanted: Int) async {
        let wanted = min(wanted, places)
        if waiting.isEmpty, free >= wanted {
            free -= wanted
        } else {
            await withCheckedContinuation { waiting.append((wanted, $0)) }
        }
    }

    /// Gives places back.
    package func leave(_ taken: Int) {
        free += min(taken, places)
        while let next = waiting.first, free >= next.places {
            free -= next.places
            waiting.removeFirst().turn.resume()
        }
    }
}
