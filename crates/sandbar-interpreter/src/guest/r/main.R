# The kernel of R: runs cells one after another in the global environment. Started with the numbers of two descriptors.
#
# A request is a line with its number and the count of its texts, then each text as a line with its length in bytes and
# the bytes: the code, then names and values of variables. Events are lines of JSON. What a cell prints goes to the plain
# stdout and stderr.

local({
  given <- commandArgs(trailingOnly = TRUE)
  # Not `file`: that waits until its buffer is full.
  requests <- fifo(paste0("/proc/self/fd/", given[[1]]), "rb", blocking = TRUE)
  events <- fifo(paste0("/proc/self/fd/", given[[2]]), "wb", blocking = TRUE)
  plots <- file.path(tempdir(), "plot%03d.png")
  current <- NULL

  read_bytes <- function(size) {
    bytes <- raw(0)
    while (length(bytes) < size) {
      more <- readBin(requests, "raw", size - length(bytes))
      if (!length(more)) quit("no")
      bytes <- c(bytes, more)
    }
    bytes
  }

  read_line <- function() {
    bytes <- raw(0)
    repeat {
      byte <- read_bytes(1L)
      if (byte == as.raw(10L)) return(rawToChar(bytes))
      bytes <- c(bytes, byte)
    }
  }

  read_text <- function() {
    text <- rawToChar(read_bytes(as.integer(read_line())))
    Encoding(text) <- "UTF-8"
    text
  }

  # A string of JSON, in bytes: what is no UTF-8 is written as hexadecimal numbers.
  quoted <- function(text) {
    text <- iconv(enc2utf8(paste(text, collapse = "\n")), "UTF-8", "UTF-8", sub = "byte")
    text <- gsub("\\", "\\\\", text, fixed = TRUE)
    text <- gsub("\"", "\\\"", text, fixed = TRUE)
    for (code in c(1:31, 127L)) {
      text <- gsub(intToUtf8(code), sprintf("\\u%04x", code), text, fixed = TRUE)
    }
    paste0("\"", text, "\"")
  }

  tell <- function(type, ...) {
    fields <- c(...)
    parts <- c(sprintf("\"type\":\"%s\"", type), paste0("\"id\":", current), sprintf("\"%s\":%s", names(fields), fields))
    line <- charToRaw(enc2utf8(paste0("{", paste(parts, collapse = ","), "}\n")))
    flush(stdout())
    # In pieces that a pipe takes at once.
    for (start in seq(1L, length(line), 4096L)) {
      writeBin(line[start:min(start + 4095L, length(line))], events)
    }
  }

  base64 <- function(bytes) {
    letters <- c(LETTERS, base::letters, 0:9, "+", "/")
    missing <- (3L - length(bytes) %% 3L) %% 3L
    numbers <- matrix(c(as.integer(bytes), integer(missing)), nrow = 3L)
    whole <- numbers[1L, ] * 65536L + numbers[2L, ] * 256L + numbers[3L, ]
    digits <- rbind(whole %/% 262144L, whole %/% 4096L %% 64L, whole %/% 64L %% 64L, whole %% 64L)
    text <- letters[digits + 1L]
    if (missing) text[length(text) - seq_len(missing) + 1L] <- "="
    paste(text, collapse = "")
  }

  open_device <- function(...) {
    grDevices::png(plots, width = 800, height = 600, res = 96, type = if (capabilities("cairo")) "cairo" else "Xlib")
  }

  # Shows what was drawn, as one picture a page.
  show_plots <- function() {
    if (!("grDevices" %in% loadedNamespaces())) return(invisible())
    while (!is.null(grDevices::dev.list())) grDevices::dev.off()
    files <- sort(list.files(dirname(plots), "^plot[0-9]+\\.png$", full.names = TRUE))
    for (file in files) {
      size <- file.size(file)
      if (size > 0) {
        png <- base64(readBin(file, "raw", size))
        tell("result", data = paste0("{\"text/plain\":\"<plot>\",\"image/png\":\"", png, "\"}"), main = "false")
      }
    }
    unlink(files)
  }

  # The value of an expression at the top, as R would print it.
  show_value <- function(value, main) {
    text <- capture.output(if (isS4(value)) methods::show(value) else print(value))
    tell("result", data = paste0("{\"text/plain\":", quoted(text), "}"), main = if (main) "true" else "false")
  }

  run <- function(code) {
    expressions <- parse(text = code, keep.source = TRUE)
    for (index in seq_along(expressions)) {
      done <- withVisible(eval(expressions[[index]], globalenv()))
      if (done$visible) show_value(done$value, index == length(expressions))
    }
  }

  # The calls of a cell that failed, without those of the kernel around it and of the signalling within.
  calls_of_cell <- function(calls) {
    texts <- vapply(calls, function(call) paste(deparse(call, nlines = 1L), collapse = ""), "")
    first <- max(0L, which(startsWith(texts, "eval(expressions[[index]]"))) + 1L
    last <- min(length(texts) + 1L, which(grepl("^\\.handleSimpleError\\(|^stop\\(", texts))) - 1L
    if (first > last) character() else texts[first:last]
  }

  fail <- function(name, value, traceback) {
    tell("error", name = quoted(name), value = quoted(value), traceback = quoted(traceback))
  }

  attempt <- function(code) {
    calls <- character()
    tryCatch(
      withCallingHandlers(run(code), error = function(condition) {
        calls <<- tryCatch(calls_of_cell(sys.calls()), error = function(other) character())
      }, warning = function(condition) {
        # One of the top level would name the call of the kernel.
        if (startsWith(paste(deparse(conditionCall(condition), nlines = 1L), collapse = ""), "eval(expressions[[index]]")) {
          message("Warning: ", conditionMessage(condition))
          invokeRestart("muffleWarning")
        }
      }),
      error = function(condition) {
        message <- conditionMessage(condition)
        call <- conditionCall(condition)
        where <- if (length(calls) && !is.null(call)) paste0("Error in ", paste(deparse(call, nlines = 1L), collapse = "")) else "Error"
        told <- c(paste0(where, ": ", message), if (length(calls)) c("Traceback:", paste0(seq_along(calls), ". ", calls)))
        fail("ERROR", message, told)
      },
      interrupt = function(condition) fail("Interrupted", "The execution was interrupted", "")
    )
  }

  execute <- function() {
    head <- as.integer(strsplit(read_line(), " ", fixed = TRUE)[[1L]])
    texts <- vapply(seq_len(head[[2L]]), function(index) read_text(), "")
    current <<- head[[1L]]
    names <- texts[seq_along(texts) %% 2L == 0L]
    before <- Sys.getenv(names, unset = NA_character_, names = TRUE)
    if (length(names)) do.call(Sys.setenv, as.list(stats::setNames(texts[seq_along(texts) %% 2L == 1L][-1L], names)))
    attempt(texts[[1L]])
    tryCatch(show_plots(), error = function(condition) message(conditionMessage(condition)))
    # A cell that left its output redirected would hide that of the next ones.
    while (sink.number() > 0L) sink()
    for (name in names) if (is.na(before[[name]])) Sys.unsetenv(name) else do.call(Sys.setenv, as.list(before[name]))
    tell("done")
  }

  options(warn = 1L, device = open_device, width = 120L)
  # An interrupt that came when the cell had just ended.
  repeat tryCatch(execute(), interrupt = function(condition) NULL)
})
