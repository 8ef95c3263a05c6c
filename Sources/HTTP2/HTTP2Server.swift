// The accepting side, for the simulator and the tests: real HTTP/2 over TLS, with every misbehaviour of a gateway at the
// handler's command (HTTP2ServerConnection). It is a server for a few hundred connections, not for the open Internet.

import Glibc
package import Reactor
package import TLS

/// What a server does by itself.
package struct HTTP2ServerConfiguration: Sendable {
    /// Sent as the first SETTINGS; nil: the handler sends SETTINGS itself, when it likes.
    package var initialSettings: HTTP2ServerSettings? = HTTP2ServerSettings()
    /// Whether PING is answered.
    package var answersPings = true
    /// Bodies longer than this are cut off; the request is delivered all the same.
    package var bodyLimit = 65_536
    /// A client that has not finished its TLS handshake by then is dropped.
    package var handshakeTimeout = Duration.seconds(10)
    /// Connections without agreement on "h2" are served all the same (Apple does).
    package var requiresALPN = false
    /// Requests are delivered when their header fields are complete, with an empty body, instead of at their end.
    package var answersHeaders = false

    package init() {}
}

/// The values of a SETTINGS frame; nil leaves a value as it is.
package struct HTTP2ServerSettings: Sendable {
    package var maxConcurrentStreams: UInt32?
    package var initialWindowSize: UInt32?
    package var maxHeaderListSize: UInt32?
    package var headerTableSize: UInt32?

    package init(
        maxConcurrentStreams: UInt32? = nil, initialWindowSize: UInt32? = nil, maxHeaderListSize: UInt32? = nil,
        headerTableSize: UInt32? = nil
    ) {
        self.maxConcurrentStreams = maxConcurrentStreams
        self.initialWindowSize = initialWindowSize
        self.maxHeaderListSize = maxHeaderListSize
        self.headerTableSize = headerTableSize
    }
}

/// A complete request.
package struct HTTP2ServerRequest: Sendable {
    package let streamID: Int32
    /// All header fields in order, pseudo-headers included, duplicates kept.
    package let fields: [(name: String, value: String)]
    package let body: [UInt8]

    /// The first value of a field.
    package subscript(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}

/// Who answers; called on the loop, never inside nghttp2, so everything of the connection may be called at once.
package protocol HTTP2ServerHandler: AnyObject {
    /// A TCP connection was accepted; its handshake is to come.
    func knocked()
    /// The handshake is complete; SETTINGS have not been read yet.
    func opened(_ connection: HTTP2ServerConnection)
    /// A request is complete.
    func received(_ request: HTTP2ServerRequest, on connection: HTTP2ServerConnection)
    /// A stream has ended, by its answer or by a reset.
    func streamClosed(_ streamID: Int32, code: UInt32, on connection: HTTP2ServerConnection)
    /// The connection is gone, whoever ended it; called once for each `opened`.
    func closed(_ connection: HTTP2ServerConnection)
}

extension HTTP2ServerHandler {
    package func knocked() {}
    package func opened(_ connection: HTTP2ServerConnection) {}
    package func streamClosed(_ streamID: Int32, code: UInt32, on connection: HTTP2ServerConnection) {}
    package func closed(_ connection: HTTP2ServerConnection) {}
}

/// A listening server on one loop.
package final class HTTP2Server: IOHandler {
    /// The port it listens on.
    package let port: UInt16
    /// How many TCP connections were accepted so far.
    package private(set) var accepted = 0
    /// How many ended before their TLS handshake was complete.
    package internal(set) var failedHandshakes = 0
    /// The connections that are open or in their handshake.
    package var connections: [HTTP2ServerConnection] { Array(live.values) }

    let loop: EventLoop
    let configuration: HTTP2ServerConfiguration
    let handler: any HTTP2ServerHandler
    /// What connections that are accepted from now on are shown.
    package var tls: TLSServerContext
    private var listener: Int32?
    private var registration: IORegistration?
    private var live: [ObjectIdentifier: HTTP2ServerConnection] = [:]

    /// Listens on a numeric address; port 0 lets the kernel choose.
    ///
    /// - Throws: `ReactorError` when the port is taken.
    package init(
        loop: EventLoop, address: String = "127.0.0.1", port: UInt16 = 0, tls: TLSServerContext,
        configuration: HTTP2ServerConfiguration = HTTP2ServerConfiguration(), handler: any HTTP2ServerHandler
    ) throws {
        self.loop = loop
        self.tls = tls
        self.configuration = configuration
        self.handler = handler
        let listener = try TCPSocket.listen(host: address, port: port)
        do {
            self.port = try TCPSocket.localPort(listener)
            self.listener = listener
            registration = try loop.register(listener, .readable, self)
        } catch {
            Glibc.close(listener)
            throw error
        }
    }

    /// Stops listening; connections stay.
    package func stopListening() {
        if let registration { loop.deregister(registration) }
        registration = nil
        if let listener { Glibc.close(listener) }
        listener = nil
    }

    /// Stops listening and drops every connection.
    package func close() {
        stopListening()
        for connection in live.values { connection.close(.notify) }
        live.removeAll()
    }

    package func ready(_ events: IOEvents) {
        while let listener {
            do throws(ReactorError) {
                guard let descriptor = try TCPSocket.accept(listener) else { return }
                adopt(descriptor)
            } catch {
                return rest()
            }
        }
    }

    private func adopt(_ descriptor: Int32) {
        accepted += 1
        handler.knocked()
        guard let stream = try? TLSStream(server: tls, descriptor: descriptor) else {
            Glibc.close(descriptor)
            return
        }
        let connection = HTTP2ServerConnection(server: self, number: accepted)
        live[ObjectIdentifier(connection)] = connection
        connection.start(Transport(loop: loop, descriptor: descriptor, stream: stream, owner: connection))
    }

    /// Out of descriptors: the waiting connection would wake the loop for ever, so it waits a little.
    private func rest() {
        guard let registration else { return }
        loop.modify(registration, [])
        loop.schedule(after: .milliseconds(100)) { [weak self] in
            guard let self, let registration = self.registration else { return }
            loop.modify(registration, .readable)
        }
    }

    func forget(_ connection: HTTP2ServerConnection) { live[ObjectIdentifier(connection)] = nil }
}
