// OpenSSL 3; macros and variadic functions that Swift cannot call stand here as inline functions.
#pragma once
#include <signal.h>
#include <time.h>
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

// Whether something in the error queue is an algorithm that this library context does not have; empties the queue.
static inline int pgpush_err_take_unsupported(void) {
    int found = 0;
    for (unsigned long code; (code = ERR_get_error()) != 0;) {
        int reason = ERR_GET_REASON(code);
        if (reason == ERR_R_UNSUPPORTED || (ERR_GET_LIB(code) == ERR_LIB_PEM && reason == PEM_R_UNSUPPORTED_ENCRYPTION)) found = 1;
    }
    return found;
}

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

// The contents of a PKCS#12 file as PEM: its certificate, those above it, the key without encryption. `legacy`: in a library
// context of its own that also knows the ciphers of old exports (RC2, single DES), which OpenSSL 3 keeps out of the common one.
enum pgpush_pkcs12_result {
    PGPUSH_PKCS12_READ,
    PGPUSH_PKCS12_NOT_ONE,
    PGPUSH_PKCS12_PASSWORD,
    PGPUSH_PKCS12_CIPHER,
    PGPUSH_PKCS12_NO_KEY,
    PGPUSH_PKCS12_NO_CERTIFICATE,
    PGPUSH_PKCS12_NO_LEGACY,
    PGPUSH_PKCS12_NO_MAC,
};

static inline int pgpush_pkcs12_write(PKCS12 *file, const char *password, BIO *output) {
    EVP_PKEY *key = NULL;
    X509 *certificate = NULL;
    STACK_OF(X509) *others = NULL;
    if (PKCS12_mac_present(file) && !PKCS12_verify_mac(file, password, -1)) {
        // No password and an empty one are not the same to this format.
        if (password[0] != 0 || !PKCS12_verify_mac(file, NULL, 0)) return PGPUSH_PKCS12_PASSWORD;
        password = NULL;
    }
    if (!PKCS12_parse(file, password, &key, &certificate, &others)) {
        return PKCS12_mac_present(file) ? PGPUSH_PKCS12_CIPHER : PGPUSH_PKCS12_NO_MAC;
    }
    int result = PGPUSH_PKCS12_READ;
    if (key == NULL) result = PGPUSH_PKCS12_NO_KEY;
    if (certificate == NULL && result == PGPUSH_PKCS12_READ) result = PGPUSH_PKCS12_NO_CERTIFICATE;
    if (result == PGPUSH_PKCS12_READ) {
        int written = PEM_write_bio_X509(output, certificate);
        for (int i = 0; written && i < sk_X509_num(others); i++) written = PEM_write_bio_X509(output, sk_X509_value(others, i));
        written = written && PEM_write_bio_PKCS8PrivateKey(output, key, NULL, NULL, 0, NULL, NULL);
        if (!written) result = PGPUSH_PKCS12_CIPHER;
    }
    EVP_PKEY_free(key);
    X509_free(certificate);
    sk_X509_pop_free(others, X509_free);
    return result;
}

static inline int pgpush_pkcs12_to_pem(BIO *input, const char *password, int legacy, BIO *output) {
    OSSL_LIB_CTX *context = NULL;
    OSSL_PROVIDER *common = NULL, *old = NULL;
    PKCS12 *file = NULL;
    int result = PGPUSH_PKCS12_NO_LEGACY;
    if (legacy) {
        context = OSSL_LIB_CTX_new();
        if (context != NULL) common = OSSL_PROVIDER_load(context, "default");
        if (context != NULL) old = OSSL_PROVIDER_load(context, "legacy");
        if (common == NULL || old == NULL || (file = PKCS12_init_ex(NID_pkcs7_data, context, NULL)) == NULL) goto end;
    }
    // d2i frees what it was given when it fails.
    file = d2i_PKCS12_bio(input, legacy ? &file : NULL);
    result = file == NULL ? PGPUSH_PKCS12_NOT_ONE : pgpush_pkcs12_write(file, password, output);
    PKCS12_free(file);
end:
    OSSL_PROVIDER_unload(old);
    OSSL_PROVIDER_unload(common);
    OSSL_LIB_CTX_free(context);
    return result;
}

// An extension that OpenSSL has no name for; `der` is its value.
static inline int pgpush_x509_add_raw_extension(X509 *subject, const char *oid, const unsigned char *der, int length) {
    ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    ASN1_OCTET_STRING *value = ASN1_OCTET_STRING_new();
    int added = 0;
    if (object != NULL && value != NULL && ASN1_OCTET_STRING_set(value, der, length)) {
        X509_EXTENSION *extension = X509_EXTENSION_create_by_OBJ(NULL, object, 0, value);
        added = extension != NULL && X509_add_ext(subject, extension, -1);
        X509_EXTENSION_free(extension);
    }
    ASN1_OCTET_STRING_free(value);
    ASN1_OBJECT_free(object);
    return added;
}

// The value of an extension, owned by the certificate; NULL when it is not there.
static inline const ASN1_OCTET_STRING *pgpush_x509_extension(X509 *certificate, const char *oid) {
    ASN1_OBJECT *object = OBJ_txt2obj(oid, 1);
    int place = object == NULL ? -1 : X509_get_ext_by_OBJ(certificate, object, -1);
    ASN1_OBJECT_free(object);
    return place < 0 ? NULL : X509_EXTENSION_get_data(X509_get_ext(certificate, place));
}

static inline void pgpush_free(void *memory) { OPENSSL_free(memory); }

// Seconds since 1970; 0 for a time that cannot be read.
static inline long long pgpush_asn1_unix_time(const ASN1_TIME *time) {
    struct tm parts;
    return time != NULL && ASN1_TIME_to_tm(time, &parts) ? (long long)timegm(&parts) : 0;
}
