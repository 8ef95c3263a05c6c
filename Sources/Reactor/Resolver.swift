// Name look-ups off the loop. `getaddrinfo` has no deadline, so the caller gets one: when it passes, the caller
// goes on with an error and the look-up ends on its own thread, unheard.

/// A name that could not be turned into an address.
package struct ResolveError: Error, Sendable, CustomStringConvertible {
    /// The name that was asked for.
    package let host: String
    /// The resolver's text.
    package let reason: String

    /// Name and reason in one line.
    package var description: String { "cannot resolve \(host): \(reason)" }
}

/// Looks names up without blocking a loop.
package enum Resolver {
    /// Resolves `host` afresh and calls `completion` on `loop`, exactly once, at the latest after `timeout`.
    package static func resolve(
        host: String, port: UInt16, timeout: Duration, loop: EventLoop,
        completion: @escaping (Result<[SocketAddress], ResolveError>) -> Void
    ) {
        loop.assertOnLoop()
        let pending = PendingLookup(completion)
        pending.deadline = loop.schedule(after: timeout) {
            pending.finish(.failure(ResolveError(host: host, reason: "no answer from the resolver in time")), loop)
        }
        let accepted = BlockingThreads.shared.run {
            let result: Result<[SocketAddress], ResolveError>
            do throws(ResolveError) {
                result = .success(try SocketAddress.lookUp(host: host, port: port))
            } catch {
                result = .failure(error)
            }
            loop.execute { pending.finish(result, loop) }
        }
        if !accepted {
            loop.schedule(after: .zero) {
                pending.finish(.failure(ResolveError(host: host, reason: "too many look-ups are waiting")), loop)
            }
        }
    }
}

// Touched on the loop only; the look-up's thread merely carries the reference back to it.
private final class PendingLookup: @unchecked Sendable {
    private var completion: ((Result<[SocketAddress], ResolveError>) -> Void)?
    var deadline: LoopTimer?

    init(_ completion: @escaping (Result<[SocketAddress], ResolveError>) -> Void) { self.completion = completion }

    func finish(_ result: Result<[SocketAddress], ResolveError>, _ loop: EventLoop) {
        guard let completion else { return }
        self.completion = nil
        if let deadline { loop.cancel(deadline) }
        completion(result)
    }
}
