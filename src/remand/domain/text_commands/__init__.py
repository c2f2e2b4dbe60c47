"""Commands and questions in plain English: a table of patterns turns a sentence into a request, a question back, or nothing."""
