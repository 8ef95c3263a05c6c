// Where a verb writes: data to standard output, everything else to standard error. Colours and live lines are used
// only on a terminal that wants them.

@unsafe @preconcurrency import CLinux
import Glibc

/// The two streams of the process and what is known about them.
struct Console: Sendable {
    /// How data is painted.
    let style: Style
    /// How messages are painted.
    let noteStyle: Style
    /// The columns of standard output if that is a terminal.
    let width: Int?
    /// The columns of standard error if that is a terminal on which a line can be redrawn.
    let liveWidth: Int?
    /// Whether somebody is there to answer a question.
    let canAsk: Bool

    /// Looks at the streams and at NO_COLOR and TERM.
    init(environment: [String: String]) {
        let isDumb = environment["TERM", default: "dumb"] == "dumb"
        let wantsColour = environment["NO_COLOR", default: ""].isEmpty && !isDumb
        style = Style(isColoured: wantsColour && isatty(STDOUT_FILENO) == 1)
        noteStyle = Style(isColoured: wantsColour && isatty(STDERR_FILENO) == 1)
        width = Self.columns(STDOUT_FILENO)
        liveWidth = isDumb ? nil : Self.columns(STDERR_FILENO)
        canAsk = isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1
    }

    private static func columns(_ descriptor: Int32) -> Int? {
        guard isatty(descriptor) == 1 else { return nil }
        var size = winsize()
        guard unsafe ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Writes data, a line each.
    func data(_ lines: [String]) { Self.write(lines.map { $0 + "\n" }.joined(), STDOUT_FILENO) }

    /// Writes one line of data.
    func data(_ line: String) { data([line]) }

    /// Writes a message.
    func note(_ line: String) { Self.write(line + "\n", STDERR_FILENO) }

    /// Draws a line over the one before; only where `liveWidth` is known.
    func redraw(_ line: String) { Self.write("\r\(line)\u{1B}[K", STDERR_FILENO) }

    /// Asks for a yes; everything else, and the end of input, is a no.
    func confirms(_ question: String) -> Bool {
        Self.write("\(question) [y/N] ", STDERR_FILENO)
        let answer = readLine()?.lowercased() ?? ""
        return answer == "y" || answer == "yes"
    }

    private static func write(_ text: String, _ descriptor: Int32) {
        var rest = Array(text.utf8)[...]
        while !rest.isEmpty {
            let count = unsafe rest.withUnsafeBytes { unsafe Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count >= 0 {
                rest = rest.dropFirst(count)
            } else if errno != EINTR {
                return failed(descriptor)
            }
        }
    }

    /// A reader that has gone ends a command quietly, by the signal it would have got; a full disk does not.
    private static func failed(_ descriptor: Int32) {
        let reason = errno
        guard descriptor == STDOUT_FILENO else { return }
        if reason == EPIPE {
            signal(SIGPIPE, SIG_DFL)
            raise(SIGPIPE)
        }
        write("pgpush: cannot write to standard output: \(unsafe String(cString: strerror(reason)))\n", STDERR_FILENO)
        exit(1)
    }
}
