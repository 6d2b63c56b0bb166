/* Rehearsal as a library: rehearsal_ask() takes the words of a command line and returns what the program answers.
 *
 *   rehearsal_answer* a = rehearsal_ask("[\"run\", \"job.yaml\", \"--format\", \"json\"]", NULL);
 *   if (rehearsal_status(a) == 0) puts(rehearsal_out(a, NULL));
 *   else fputs(rehearsal_err(a, NULL), stderr);
 *   rehearsal_free(a);
 *
 * Stable: functions are added, none is changed; the name of the shared library has the version of this interface
 * (librehearsal.so.0). Any number of threads may ask at once; one answer belongs to one thread at a time, but for
 * rehearsal_cancel(). No function but rehearsal_main() prints or changes the process (signals, working
 * directory, environment), and none throws or exits. Texts are UTF-8 and end with a zero byte that is not counted. A null answer may be passed to every
 * function: it is that of a machine without memory.
 */
#ifndef REHEARSAL_H
#define REHEARSAL_H
#include <stddef.h>

#define REHEARSAL_ABI 0

#if defined(__GNUC__)
#define REHEARSAL_API __attribute__((visibility("default")))
#else
#define REHEARSAL_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rehearsal_answer rehearsal_answer;

/* Asks and waits: rehearsal_new() and rehearsal_perform() in one. */
REHEARSAL_API rehearsal_answer* rehearsal_ask(const char* words_json, const char* files_json);

/* A question, not yet asked. `words_json`: a JSON array of texts, the command line without the program's name.
 * `files_json`: null, or a JSON object of files in memory by name, which are looked for before those of the disk; a value
 * is the text of the file, or an object that is its content as JSON (which is YAML too). A file that a command writes as
 * memory:NAME (--html memory:page) is kept in the answer: rehearsal_file().
 * Wrong JSON is an answer with status 2. Free it with rehearsal_free(). */
REHEARSAL_API rehearsal_answer* rehearsal_new(const char* words_json, const char* files_json);

/* Before rehearsal_perform(): `say` is called, from any thread but one call at a time, with a line that says how far the
 * work is: first after a second, at most four times a second; an empty line is the end of them. */
REHEARSAL_API void rehearsal_progress(rehearsal_answer*, void (*say)(void* context, const char* line), void* context);

/* Answers; returns the status. Of an answer that is there already, its status. */
REHEARSAL_API int rehearsal_perform(rehearsal_answer*);

/* Asks the answer to stop, from any thread, before or while it is made: `plan` then ends with the best so far, anything
 * else soon, in the middle of a prediction too, with status 130. */
REHEARSAL_API void rehearsal_cancel(rehearsal_answer*);

/* 0 done; 1 a checked condition does not hold; 2 wrong input; 3 the machine lacks something; 70 a bug of ours; 130
 * cancelled. Of a question that was not asked: -1. */
REHEARSAL_API int rehearsal_status(const rehearsal_answer*);

/* What a command line would see on standard output and standard error. `bytes` may be null. Valid until the answer is
 * freed. Never null. */
REHEARSAL_API const char* rehearsal_out(const rehearsal_answer*, size_t* bytes);
REHEARSAL_API const char* rehearsal_err(const rehearsal_answer*, size_t* bytes);

/* The file written as memory:NAME; null if there is none. */
REHEARSAL_API const char* rehearsal_file(const rehearsal_answer*, const char* name, size_t* bytes);

/* Tables of the answer of `run`, without JSON. rehearsal_tables(): what there is, as a JSON object
 * {"timeline": [{"name": "start_s", "type": "d", "unit": "s", "help": "..."}, ...], ...}; {} for other commands. Of
 * several scenarios, the tables of the second are "timeline:1", and so on. */
REHEARSAL_API const char* rehearsal_tables(rehearsal_answer*);

/* `count` values in a row, valid until the answer is freed; null if there is no such column. `type` (may be null): 'd'
 * double, 'q' 64-bit integer, 'i' 32-bit integer, 'B' one byte; 'i' and 'B' of a column of words are places in
 * rehearsal_words(). */
REHEARSAL_API const void* rehearsal_column(rehearsal_answer*, const char* table, const char* column, size_t* count,
                                           char* type);
/* The words of a column of words; null for others. */
REHEARSAL_API const char* const* rehearsal_words(rehearsal_answer*, const char* table, const char* column,
                                                 size_t* count);

/* The program itself, for a main(): answers on the standard streams of this process, with its terminal and its Ctrl-C, and
 * returns the exit status. `line`: `words` words after the name of the program. Ignores SIGPIPE and SIGXFSZ from then on;
 * not beside itself. */
REHEARSAL_API int rehearsal_main(int words, const char* const* line);

REHEARSAL_API void rehearsal_free(rehearsal_answer*);

REHEARSAL_API const char* rehearsal_version(void);

#ifdef __cplusplus
}
#endif
#endif
