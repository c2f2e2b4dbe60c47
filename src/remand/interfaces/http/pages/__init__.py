"""The web pages: what each reads, its template, and the forms with which people act."""
