// OpenSSL 3; macros and variadic functions that Swift cannot call stand here as inline functions.
#pragma once
#include <signal.h>
#include <openssl/bio.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

// OpenSSL writes to sockets with write(2), which cannot suppress SIGPIPE call by call.
static inline void pgpush_ignore_sigpipe(void) { signal(SIGPIPE, SIG_IGN); }

static inline int pgpush_err_reason(unsigned long code) { return ERR_GET_REASON(code); }
static inline int pgpush_err_library(unsigned long code) { return ERR_GET_LIB(code); }

static inline EVP_PKEY *pgpush_generate_p256(void) { return EVP_EC_gen("P-256"); }

static inline long pgpush_bio_data(BIO *bio, char **data) { return BIO_get_mem_data(bio, data); }

static inline int pgpush_ctx_minimum_tls12(SSL_CTX *ctx) { return (int)SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION); }
static inline void pgpush_ctx_partial_writes(SSL_CTX *ctx) {
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
// HTTP/2 forbids renegotiation (RFC 9113 §9.2.1).
static inline void pgpush_ctx_no_renegotiation(SSL_CTX *ctx) { SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION); }
static inline void pgpush_ctx_read_ahead(SSL_CTX *ctx) { SSL_CTX_set_read_ahead(ctx, 1); }
static inline void pgpush_ctx_no_session_cache(SSL_CTX *ctx) { SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF); }
static inline int pgpush_ctx_add_chain(SSL_CTX *ctx, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(ctx, certificate);
}
static inline int pgpush_ssl_server_name(SSL *ssl, const char *name) { return (int)SSL_set_tlsext_host_name(ssl, name); }

// A certificate extension in OpenSSL's configuration syntax, such as "DNS:localhost".
static inline int pgpush_x509_add_extension(X509 *subject, X509 *issuer, int nid, const char *value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, subject, NULL, NULL, 0);
    X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    if (extension == NULL) return 0;
    int added = X509_add_ext(subject, extension, -1);
    X509_EXTENSION_free(extension);
    return added;
}
