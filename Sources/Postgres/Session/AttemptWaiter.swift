// Somebody who waits for a connection without sending anything over it: however far away the server is, a wait that is over
// must not take the connection with it.

import Reactor

/// Gets the result of one attempt to connect, once; loop-confined.
final class AttemptWaiter {
    /// Fires when the wait has taken too long; set by the session that accepted it.
    var timer: LoopTimer?
    private var completion: ((Result<Void, PostgresError>) -> Void)?

    init(completion: @escaping (Result<Void, PostgresError>) -> Void) { self.completion = completion }

    /// Tells how the attempt ended; only the first time counts.
    func finish(_ result: Result<Void, PostgresError>, _ loop: EventLoop) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard let completion else { return }
        self.completion = nil
        completion(result)
    }
}
