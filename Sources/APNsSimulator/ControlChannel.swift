// Where control commands come from: stdin, or connections to a Unix socket. Both are lines in, lines out, on the
// simulator's loop; nothing here ever blocks it.

import Glibc
package import Reactor

/// Lines in and lines out over a pair of descriptors.
package final class ControlChannel: IOHandler {
    private let loop: EventLoop
    private let input: Int32
    private let output: Int32
    private let ownsDescriptors: Bool
    private let handle: (String, @escaping (String) -> Void) -> Void
    private let ended: () -> Void
    private var registration: IORegistration?
    private var outlet: Outlet?
    private var partial: [UInt8] = []

    /// Reads commands from `input` until its end; answers to `output`.
    ///
    /// - Parameters:
    ///   - loop: where.
    ///   - input: a pipe, socket or terminal.
    ///   - output: where answers go; may be the same socket.
    ///   - ownsDescriptors: whether they are closed at the end.
    ///   - handle: takes a line and a way to answer it.
    ///   - ended: called once, when no more commands will come.
    /// - Throws: `SimulatorError` when the loop cannot watch the input (a plain file).
    package init(
        loop: EventLoop, input: Int32, output: Int32, ownsDescriptors: Bool,
        handle: @escaping (String, @escaping (String) -> Void) -> Void, ended: @escaping () -> Void
    ) throws(SimulatorError) {
        self.loop = loop
        self.input = input
        self.output = output
        self.ownsDescriptors = ownsDescriptors
        self.handle = handle
        self.ended = ended
        do throws(ReactorError) {
            registration = try loop.register(input, .readable, self)
        } catch {
            throw SimulatorError(.system, "control commands cannot be read: \(error)")
        }
        outlet = Outlet(loop: loop, descriptor: output)
    }

    package func ready(_ events: IOEvents) {
        var chunk = [UInt8](repeating: 0, count: 4096)
        let count = unsafe read(input, &chunk, chunk.count)
        if count < 0, errno == EINTR || errno == EAGAIN { return }
        guard count > 0 else { return close() }
        partial.append(contentsOf: chunk[..<count])
        while let end = partial.firstIndex(of: UInt8(ascii: "\n")) {
            let line = String(decoding: partial[..<end], as: UTF8.self)
            partial.removeSubrange(...end)
            handle(line) { [weak self] answer in self?.outlet?.write(answer + "\n") }
        }
        // No command is that long.
        if partial.count > 65_536 { close() }
    }

    /// Stops reading.
    package func close() {
        guard let registration else { return }
        loop.deregister(registration)
        self.registration = nil
        outlet?.close()
        outlet = nil
        if ownsDescriptors { Glibc.close(input) }
        ended()
    }
}

/// Text on its way out, never waiting for the reader.
final class Outlet: IOHandler {
    private let loop: EventLoop
    private let descriptor: Int32
    private let ownDescriptor: Int32
    private var registration: IORegistration?
    private var waiting: [UInt8] = []

    init(loop: EventLoop, descriptor: Int32) {
        self.loop = loop
        self.descriptor = descriptor
        // A descriptor of its own, because one descriptor cannot be watched twice.
        ownDescriptor = fcntl(descriptor, F_DUPFD_CLOEXEC, 0)
    }

    deinit { if ownDescriptor >= 0 { Glibc.close(ownDescriptor) } }

    /// Sends a text as soon as there is room for it.
    func write(_ text: String) {
        waiting.append(contentsOf: text.utf8)
        guard registration == nil else { return }
        while !waiting.isEmpty, hasRoom { if !drain() { waiting.removeAll() } }
        // Without a watch (the loop is out of memory) the rest waits for the next text.
        if !waiting.isEmpty { registration = try? loop.register(ownDescriptor, .writable, self) }
    }

    /// Whether a write would not wait.
    private var hasRoom: Bool {
        var question = pollfd(fd: ownDescriptor, events: Int16(POLLOUT), revents: 0)
        return unsafe poll(&question, 1, 0) == 1
    }

    func ready(_ events: IOEvents) {
        if drain(), !waiting.isEmpty { return }
        waiting.removeAll()
        close()
    }

    /// Gives up what waits.
    func close() {
        if let registration { loop.deregister(registration) }
        registration = nil
    }

    /// Writes what a pipe that is ready always takes; false when the reader is gone.
    private func drain() -> Bool {
        let count = unsafe waiting.withUnsafeBytes {
            unsafe Glibc.write(ownDescriptor, $0.baseAddress, min($0.count, 4096))
        }
        if count < 0 { return errno == EINTR || errno == EAGAIN }
        waiting.removeFirst(count)
        return true
    }
}

/// A Unix socket that people and scripts connect to.
package final class ControlSocket: IOHandler {
    private let loop: EventLoop
    private let descriptor: Int32
    private let path: String
    private let handle: (String, @escaping (String) -> Void) -> Void
    private var registration: IORegistration?
    private var channels: [Int32: ControlChannel] = [:]

    /// Listens at `path`; a socket that lies about there is replaced.
    package init(
        loop: EventLoop, path: String, handle: @escaping (String, @escaping (String) -> Void) -> Void
    ) throws(SimulatorError) {
        self.loop = loop
        self.path = path
        self.handle = handle
        descriptor = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue), 0)
        guard descriptor >= 0 else { throw .system("no socket for control commands", errno) }
        guard ControlSocket.bindAndListen(descriptor, path) else {
            let failure = SimulatorError.system("the control socket \(path) cannot be opened", errno)
            Glibc.close(descriptor)
            throw failure
        }
        registration = try? loop.register(descriptor, .readable, self)
    }

    private static func bindAndListen(_ descriptor: Int32, _ path: String) -> Bool {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let bytes = Array(path.utf8)
        let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { place in
            guard bytes.count < place.count else { return false }
            unsafe place.copyBytes(from: bytes)
            return true
        }
        guard fits else {
            errno = ENAMETOOLONG
            return false
        }
        unsafe unlink(path)
        let bound = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                unsafe bind(descriptor, $0, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        return bound == 0 && listen(descriptor, 8) == 0
    }

    package func ready(_ events: IOEvents) {
        let peer = accept(descriptor, nil, nil)
        guard peer >= 0 else { return }
        _ = fcntl(peer, F_SETFD, FD_CLOEXEC)
        _ = fcntl(peer, F_SETFL, O_NONBLOCK)
        do throws(SimulatorError) {
            channels[peer] = try ControlChannel(
                loop: loop, input: peer, output: peer, ownsDescriptors: true, handle: handle
            ) { [weak self] in self?.channels[peer] = nil }
        } catch {
            Glibc.close(peer)
        }
    }

    /// Stops listening and takes the socket away.
    package func close() {
        if let registration { loop.deregister(registration) }
        registration = nil
        for channel in channels.values { channel.close() }
        Glibc.close(descriptor)
        unsafe unlink(path)
    }
}
