/// The SQL of this folder, embedded in the binary.
package enum Schema {
    /// A file of this folder.
    package struct File: Sendable {
        /// The file's name without `.sql`.
        package let name: String
        package let text: String
        package var number: Int { Int(name.dropFirst().prefix { $0.isNumber }) ?? 0 }
    }
    package static let migrations: [File] = []
    package static let objects: [File] = []
    package static let roles: [File] = []
}
