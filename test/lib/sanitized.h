/*
 * Whether this is a build with AddressSanitizer or ThreadSanitizer, which bring an allocator of
 * their own and take their time.
 */
#ifndef TEST_LIB_SANITIZED_H
#define TEST_LIB_SANITIZED_H

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_IS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TEST_IS_SANITIZED 1
#endif
#endif

#ifndef TEST_IS_SANITIZED
#define TEST_IS_SANITIZED 0
#endif

#endif
