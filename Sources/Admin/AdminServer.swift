// The pages for an operator's tools, served by libmicrohttpd on a loop of its own: a lane that stands still must not keep anybody
// from finding that out, and whoever asks must not slow a lane.
//
//     socket ──► MHD's epoll ──► our loop ──► MHD_run ──► answered ──► pages ──► a copy of the text ──► socket
//
// Everything is bounded: connections, the memory of each, how long one may say nothing, and how long one may last; beyond the
// number of connections callers wait in the kernel's queue. A caller that hangs costs a place for as long as that, and nothing else.

import CMicrohttpd
import Glibc
package import Reactor
import Telemetry

/// Bounds of the server.
package struct AdminLimits: Sendable {
    /// Connections at a time.
    package var connections = 16
    /// Bytes for the head of a request.
    package var memory = 16 * 1024
    /// Whole seconds in which a connection says and takes nothing.
    package var silence = 10
    /// How long a connection may last, however busy it is.
    package var lifetime = Duration.seconds(30)

    package init() {}
}

/// A server that cannot listen or cannot start.
package struct AdminError: Error, Sendable, CustomStringConvertible {
    package let description: String
}

/// A running server; `stop` it before it is let go.
///
/// Members marked "any thread" may be called from everywhere; all others only on the loop's own thread.
@safe package final class AdminServer: @unchecked Sendable {
    /// Where it listens, with the port that it got (any thread).
    package let address: AdminAddress

    private let loop: EventLoop
    private let pages: AdminPages
    private let limits: AdminLimits
    private let ticks: @Sendable () -> Void
    private let hasStopped = Lock(false)

    // Only the loop's thread touches what follows.
    private var daemon: OpaquePointer?
    private var registration: IORegistration?
    private var clock: LoopTimer?
    private var open: [UInt: (socket: Int32, since: MonotonicTime)] = [:]

    /// Listens and serves; `everySecond` is called on the server's thread (any thread).
    ///
    /// - Throws: `AdminError`, which says what is in the way.
    package init(
        _ address: AdminAddress, pages: AdminPages, limits: AdminLimits = AdminLimits(),
        everySecond ticks: @escaping @Sendable () -> Void = {}
    ) throws(AdminError) {
        let listener = try Self.listen(address)
        self.pages = pages
        self.limits = limits
        self.ticks = ticks
        do throws(ReactorError) {
            self.address = AdminAddress(host: address.host, port: try TCPSocket.localPort(listener))
            loop = try EventLoop(name: "admin")
            try loop.start()
        } catch {
            close(listener)
            throw AdminError(description: error.description)
        }
        let isServing: Bool
        do { isServing = try loop.runBlocking { [self] _ in serve(listener) } } catch { isServing = false }
        guard isServing else {
            close(listener)
            loop.stop()
            loop.join()
            throw AdminError(description: "the HTTP server cannot be started")
        }
    }

    /// Ends all connections and stops listening; returns when that is done, which takes no time whatever callers do (any thread but
    /// the server's).
    package func stop() {
        let wasStopped = hasStopped.withLock { stopped in
            defer { stopped = true }
            return stopped
        }
        guard !wasStopped else { return }
        loop.execute { [self] in end() }
        loop.stop()
        loop.join()
    }

    private static func listen(_ address: AdminAddress) throws(AdminError) -> Int32 {
        var problem = ""
        for host in address.candidates {
            do {
                return try TCPSocket.listen(host: host, port: address.port, backlog: 64)
            } catch let error as ReactorError {
                // Taken is taken; only a family that the machine does not have is no reason to give up.
                problem = ReactorError.text(error.errno)
                if error.errno != EAFNOSUPPORT, error.errno != EADDRNOTAVAIL { break }
            } catch {
                problem = "\(error)"
            }
        }
        throw AdminError(description: problem)
    }

    // MARK: On the loop

    private func serve(_ listener: Int32) -> Bool {
        let context = unsafe Unmanaged.passUnretained(self).toOpaque()
        unsafe daemon = pgpush_mhd_start(
            listener, UInt32(limits.connections), limits.memory, UInt32(limits.silence), requested, noticed, context)
        guard let daemon = unsafe daemon else { return false }
        guard let registration = try? loop.register(unsafe pgpush_mhd_epoll(daemon), .readable, self) else {
            // It would close the socket, which is its owner's to close.
            _ = unsafe MHD_quiesce_daemon(daemon)
            unsafe MHD_stop_daemon(daemon)
            return false
        }
        self.registration = registration
        tick()
        return true
    }

    private func end() {
        if let clock { loop.cancel(clock) }
        clock = nil
        if let registration { loop.deregister(registration) }
        registration = nil
        if let daemon = unsafe daemon { unsafe MHD_stop_daemon(daemon) }
        unsafe daemon = nil
    }

    /// Once a second: connections that say nothing, or have lasted too long, are ended.
    private func tick() {
        guard unsafe daemon != nil else { return }
        ticks()
        let now = MonotonicTime.now()
        for (socket, since) in open.values where now.since(since) > limits.lifetime {
            _ = shutdown(socket, Int32(SHUT_RDWR))
        }
        run()
        clock = loop.schedule(after: .seconds(1)) { [weak self] in self?.tick() }
    }

    /// Lets the library do what there is to do, but not for ever: who has more is called again in the next turn.
    private func run() {
        guard let daemon = unsafe daemon else { return }
        for _ in 0..<64 {
            _ = unsafe MHD_run(daemon)
            guard unsafe pgpush_mhd_has_more(daemon) != 0 else { return }
        }
        loop.execute { [weak self] in self?.run() }
    }

    fileprivate func answer(_ connection: OpaquePointer, method: String, path: String) -> Bool {
        let page = pages.answer(method: method, path: path)
        return unsafe page.body.utf8.withContiguousStorageIfAvailable { body in
            unsafe pgpush_mhd_answer(
                connection, UInt32(page.status), body.baseAddress, body.count, page.type,
                page.allow == nil ? nil : "Allow", page.allow) != 0
        } ?? false
    }

    fileprivate func opened(_ connection: OpaquePointer) {
        unsafe open[UInt(bitPattern: connection)] = (pgpush_mhd_socket(connection), .now())
    }

    fileprivate func closed(_ connection: OpaquePointer) { open[UInt(bitPattern: connection)] = nil }
}

extension AdminServer: IOHandler {
    package func ready(_ events: IOEvents) { run() }
}

/// MHD_AccessHandlerCallback: answered when the head is there; a body is not waited for.
private func requested(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?, _ url: UnsafePointer<CChar>?,
    _ method: UnsafePointer<CChar>?, _ version: UnsafePointer<CChar>?, _ upload: UnsafePointer<CChar>?,
    _ uploadSize: UnsafeMutablePointer<Int>?, _ memory: UnsafeMutablePointer<UnsafeMutableRawPointer?>?
) -> MHD_Result {
    guard let context = unsafe context, let connection = unsafe connection, let url = unsafe url,
        let method = unsafe method
    else { return .NO }
    let server = unsafe Unmanaged<AdminServer>.fromOpaque(context).takeUnretainedValue()
    let isAnswered = unsafe server.answer(connection, method: String(cString: method), path: String(cString: url))
    return isAnswered ? .YES : .NO
}

/// MHD_NotifyConnectionCallback.
private func noticed(
    _ context: UnsafeMutableRawPointer?, _ connection: OpaquePointer?,
    _ memory: UnsafeMutablePointer<UnsafeMutableRawPointer?>?, _ code: MHD_ConnectionNotificationCode
) {
    guard let context = unsafe context, let connection = unsafe connection else { return }
    let server = unsafe Unmanaged<AdminServer>.fromOpaque(context).takeUnretainedValue()
    if pgpush_mhd_is_new(code) != 0 { unsafe server.opened(connection) } else { unsafe server.closed(connection) }
}
