// A connected descriptor with TLS on it, driven by the loop: bytes in, bytes out, one end. Client and server connections
// stand on it. Reading is done when the loop says so, writing once at the end of a turn in full TLS records (measured
// elsewhere: 4–5 times less CPU than a write per frame).
//
//   handshaking ──> open ──> finishing (write what is left) ──> lingering (wait for the peer's end) ──> closed
//        └────────────┴────────────────────── end, with a fault told to the owner ────────────────────────┘

import Glibc
import Reactor
import TLS

/// The connection on top of a transport; called on the loop, never after the transport has ended.
protocol TransportOwner: AnyObject {
    /// The handshake is complete.
    func transportOpened(_ transport: Transport)
    /// Bytes have arrived; they are lent for the call.
    func transportReceived(_ bytes: UnsafeRawBufferPointer)
    /// Puts bytes to send into the buffer and returns how many; 0 when there is nothing.
    func transportFill(_ buffer: UnsafeMutableRawBufferPointer) -> Int
    /// All that there was to send is with the kernel.
    func transportFlushed()
    /// The connection is gone; not called after `close`.
    func transportEnded(_ fault: HTTP2Fault)
}

/// One encrypted connection on one loop; owns the descriptor.
@safe final class Transport: IOHandler, TurnHandler {
    private enum State { case handshaking, open, finishing, lingering, closed }

    /// One TLS record holds at most this much; more per write or read brings nothing.
    private static let recordSize = 16_384
    /// What one turn may read or write on one connection before the others have theirs.
    private static let turnBudget = 16 * recordSize

    let stream: TLSStream
    private let loop: EventLoop
    private let descriptor: Int32
    private var owner: (any TransportOwner)?
    private var registration: IORegistration?
    private var interest: IOInterest = [.readable]
    private var state = State.handshaking
    private var isFlushQueued = false
    private var mustReadAgain = false
    private var isPaused = false
    private var lingerTimer: LoopTimer?

    private let input = UnsafeMutableRawBufferPointer.allocate(byteCount: recordSize, alignment: 16)
    private let output = UnsafeMutableRawBufferPointer.allocate(byteCount: recordSize, alignment: 16)
    private var outputStart = 0
    private var outputEnd = 0

    /// Takes over a connected descriptor; `start` begins the handshake.
    init(loop: EventLoop, descriptor: Int32, stream: TLSStream, owner: any TransportOwner) {
        self.loop = loop
        self.descriptor = descriptor
        self.stream = stream
        self.owner = owner
    }

    deinit {
        unsafe input.deallocate()
        unsafe output.deallocate()
    }

    /// Begins the handshake.
    func start() {
        do {
            registration = try loop.register(descriptor, interest, self)
        } catch {
            return end(HTTP2Fault(.connectionLost, native: Int(error.errno), error.description))
        }
        continueHandshake()
    }

    /// Whether bytes can still be sent.
    var isOpen: Bool { state == .open }

    /// Whether the kernel takes no more bytes at present.
    var isBlocked: Bool { interest.contains(.writable) }

    /// Whether bytes were taken from the owner of which TLS has taken none: they never reach the peer if it ends now.
    var hasUntouchedOutput: Bool { outputStart == 0 && outputEnd > 0 }

    /// Asks for `transportFill` at the end of this turn.
    func queueFlush() {
        guard !isFlushQueued, state == .open || state == .finishing else { return }
        isFlushQueued = true
        loop.atEndOfTurn(self)
    }

    /// Stops or resumes reading, so that the peer's bytes pile up in the kernel.
    func pause(_ paused: Bool) {
        isPaused = paused
        watch(writable: interest.contains(.writable))
        if !paused && state == .open {
            mustReadAgain = true
            queueFlush()
        }
    }

    // MARK: Ends

    /// Ends at once, with `reset` by a TCP reset, else by a TLS close and FIN; the owner hears nothing more.
    func close(reset: Bool = false) {
        guard state != .closed else { return }
        if reset {
            TCPSocket.setResetOnClose(descriptor)
        } else if state == .open {
            stream.shutdown()
        }
        release()
    }

    /// Ends at once by a fatal TLS alert and FIN; the owner hears nothing more.
    func refuse() {
        if state == .open { stream.alert() }
        release()
    }

    /// Writes what is left, then ends and waits, at most two seconds, for the peer to do the same.
    ///
    /// Closing at once would reset the connection when the peer's bytes are unread, and take our last ones with it.
    func finish() {
        guard state == .open else { return close() }
        state = .finishing
        lingerTimer = loop.schedule(after: .seconds(2)) { [self] in release() }
        queueFlush()
    }

    /// Sends a bare FIN, without a word of TLS, and waits for the peer's end.
    func abandon() {
        guard state == .open else { return close() }
        lingerTimer = loop.schedule(after: .seconds(2)) { [self] in release() }
        linger()
    }

    private func linger() {
        owner = nil
        state = .lingering
        shutdown(descriptor, Int32(SHUT_WR))
        isPaused = false
        watch(writable: false)
    }

    private func end(_ fault: HTTP2Fault) {
        guard state != .closed else { return }
        let owner = self.owner
        release()
        owner?.transportEnded(fault)
    }

    private func release() {
        guard state != .closed else { return }
        state = .closed
        owner = nil
        if let lingerTimer { loop.cancel(lingerTimer) }
        lingerTimer = nil
        if let registration { loop.deregister(registration) }
        registration = nil
        Glibc.close(descriptor)
    }

    // MARK: Events

    func ready(_ events: IOEvents) {
        switch state {
        case .handshaking: continueHandshake()
        case .open, .finishing:
            if isPaused && !events.isDisjoint(with: [.hangup, .error, .peerClosed]) {
                return end(HTTP2Fault(.connectionLost, "the connection is gone"))
            }
            // Writable counts for reading, too: TLS may have to write before it can read on.
            if !isPaused && !events.isEmpty { readAll() }
            if events.contains(.writable) || outputStart < outputEnd { queueFlush() }
        case .lingering: discard()
        case .closed: break
        }
    }

    func turnEnded() {
        isFlushQueued = false
        if mustReadAgain && state == .open && !isPaused {
            mustReadAgain = false
            readAll()
        }
        flush()
    }

    private func watch(writable: Bool) {
        // Whoever reads nothing hears of the end all the same.
        var wanted: IOInterest = isPaused ? [.peerClosed] : [.readable]
        if writable { wanted.insert(.writable) }
        guard wanted != interest, let registration else { return }
        interest = wanted
        loop.modify(registration, wanted)
    }

    private func continueHandshake() {
        switch stream.handshake() {
        case .done: opened()
        case .wantRead: watch(writable: false)
        case .wantWrite: watch(writable: true)
        case .closed: end(HTTP2Fault(.connectionLost, "the peer closed the connection during the TLS handshake"))
        case .failed(let error): end(HTTP2Fault(error))
        }
    }

    private func opened() {
        state = .open
        watch(writable: false)
        owner?.transportOpened(self)
        // The peer's first bytes may have come with the end of its handshake and wait inside OpenSSL.
        if state == .open && !isPaused { readAll() }
    }

    // MARK: Reading

    private func readAll() {
        var count = 0
        repeat {
            switch unsafe stream.read(into: input) {
            case .done(let length):
                count += length
                unsafe owner?.transportReceived(UnsafeRawBufferPointer(rebasing: input[..<length]))
            case .wantRead: return
            case .wantWrite: return watch(writable: true)
            case .closed: return end(HTTP2Fault(.connectionLost, "the peer closed the connection"))
            case .failed(let error): return end(HTTP2Fault(error))
            }
            if count >= Transport.turnBudget {
                mustReadAgain = true
                return queueFlush()
            }
        } while (state == .open || state == .finishing) && !isPaused && stream.hasPending
    }

    private func discard() {
        let count = unsafe recv(descriptor, input.baseAddress, input.count, 0)
        if count > 0 || (count < 0 && (errno == EAGAIN || errno == EINTR)) { return }
        release()
    }

    // MARK: Writing

    private func flush() {
        var written = 0
        while state == .open || state == .finishing {
            if outputStart == outputEnd {
                guard refill() else { return flushed() }
            }
            let rest = unsafe UnsafeRawBufferPointer(rebasing: output[outputStart..<outputEnd])
            switch unsafe stream.write(rest) {
            case .done(let count):
                outputStart += count
                written += count
            case .wantWrite: return watch(writable: true)
            case .wantRead: return
            case .closed: return end(HTTP2Fault(.connectionLost, "the peer closed the connection"))
            case .failed(let error): return writeFailed(error)
            }
            if written >= Transport.turnBudget { return queueFlush() }
        }
    }

    private func refill() -> Bool {
        outputStart = 0
        outputEnd = 0
        guard let owner else { return false }
        let count = unsafe owner.transportFill(output)
        // The owner may have ended the connection while it looked for bytes.
        guard state == .open || state == .finishing else { return false }
        outputEnd = count
        return count > 0
    }

    private func flushed() {
        if state == .finishing {
            stream.shutdown()
            return linger()
        }
        guard state == .open else { return }
        watch(writable: false)
        owner?.transportFlushed()
    }

    /// What the peer sent before it went away (answers, the reason of its leaving) may still be there to read.
    private func writeFailed(_ error: TLSError) {
        for _ in 0..<64 where state == .open && !isPaused {
            guard case .done(let length) = unsafe stream.read(into: input) else { break }
            unsafe owner?.transportReceived(UnsafeRawBufferPointer(rebasing: input[..<length]))
        }
        end(HTTP2Fault(error))
    }
}
