/// The SQL of this folder, embedded in the binary.
package enum Schema {}
