"""What a timing was measured on, for the JSON of every benchmark."""

from reproduction.machine import describe as describe
