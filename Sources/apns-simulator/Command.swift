// The command `apns-simulator`: reads the options, puts the simulator on a loop of its own, and waits for its end.

import APNsSimulator
import CLinux
import Glibc
import Reactor

@main
struct Command {
    static func main() {
        SignalWatch.block([SIGTERM, SIGINT, SIGUSR1])
        do {
            guard let options = try CommandLineReader.read() else { return }
            try Service.run(options)
        } catch let error as SimulatorError {
            say("apns-simulator: \(error)")
            if error.code == .usage { say("Try apns-simulator --help.") }
            exit(error.code == .usage ? 2 : 1)
        } catch {
            say("apns-simulator: \(error)")
            exit(1)
        }
    }
}

/// Prints a line for people.
func say(_ text: String) { put(text + "\n", on: STDERR_FILENO) }

/// Writes a text whole; a reader who has gone is no reason to end.
func put(_ text: String, on descriptor: Int32) {
    var bytes = Array(text.utf8)[...]
    while !bytes.isEmpty {
        let count = unsafe bytes.withUnsafeBytes { unsafe write(descriptor, $0.baseAddress, $0.count) }
        if count < 0 {
            if errno == EINTR { continue }
            return
        }
        bytes = bytes.dropFirst(count)
    }
}
