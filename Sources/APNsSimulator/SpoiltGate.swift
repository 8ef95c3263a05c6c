// A port where nobody ever gets through the TLS handshake.

import Glibc
import Reactor

/// Accepts connections and never answers their handshake, or cuts it off.
final class SpoiltGate: IOHandler {
    private let loop: EventLoop
    private let cuts: Bool
    private let knocked: () -> Void
    private let listener: Int32
    private var registration: IORegistration?
    private var victims: [Int32: Victim] = [:]

    /// Listens.
    ///
    /// `cuts` resets a connection once its first bytes have come, else it is left without an answer; `knocked` is called for each
    /// that is accepted.
    init(loop: EventLoop, address: String, port: UInt16, cuts: Bool, knocked: @escaping () -> Void) throws {
        self.loop = loop
        self.cuts = cuts
        self.knocked = knocked
        listener = try TCPSocket.listen(host: address, port: port)
        do {
            registration = try loop.register(listener, .readable, self)
        } catch {
            Glibc.close(listener)
            throw error
        }
    }

    func ready(_ events: IOEvents) {
        // Out of descriptors: whoever knocks goes on knocking until others have left.
        guard let descriptor = try? TCPSocket.accept(listener) else { return }
        knocked()
        do {
            victims[descriptor] = try Victim(loop: loop, descriptor: descriptor, isCut: cuts) { [weak self] in
                self?.victims[descriptor] = nil
            }
        } catch {
            Glibc.close(descriptor)
        }
    }

    /// Stops listening and lets everybody go.
    func close() {
        guard let registration else { return }
        loop.deregister(registration)
        self.registration = nil
        Glibc.close(listener)
        for victim in victims.values { victim.end() }
    }
}

/// A connection that gets no further.
private final class Victim: IOHandler {
    private let loop: EventLoop
    private let descriptor: Int32
    private let isCut: Bool
    private let ended: () -> Void
    private var registration: IORegistration?

    init(loop: EventLoop, descriptor: Int32, isCut: Bool, ended: @escaping () -> Void) throws {
        self.loop = loop
        self.descriptor = descriptor
        self.isCut = isCut
        self.ended = ended
        registration = try loop.register(descriptor, .readable, self)
    }

    func ready(_ events: IOEvents) {
        var bytes = [UInt8](repeating: 0, count: 4096)
        let count = unsafe recv(descriptor, &bytes, bytes.count, 0)
        if isCut || count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR) { end() }
    }

    func end() {
        guard let registration else { return }
        loop.deregister(registration)
        self.registration = nil
        if isCut { TCPSocket.setResetOnClose(descriptor) }
        Glibc.close(descriptor)
        ended()
    }
}
