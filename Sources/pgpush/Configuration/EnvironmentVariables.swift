// The environment as a dictionary, without Foundation: ProcessInfo would bring ICU into a worker of a few megabytes.

@unsafe @preconcurrency import Glibc

/// Reads the environment of the process.
enum EnvironmentVariables {
    /// All variables that are UTF-8; of several with one name the first counts, as for getenv.
    static func current() -> [String: String] {
        var found: [String: String] = [:]
        var entry = unsafe environ
        while let text = unsafe entry.pointee {
            let pair = unsafe String(cString: text)
            if let equals = pair.firstIndex(of: "="), equals > pair.startIndex {
                let name = String(pair[..<equals])
                if found[name] == nil { found[name] = String(pair[pair.index(after: equals)...]) }
            }
            unsafe entry += 1
        }
        return found
    }
}
