"""What a timing was measured on, for the JSON of every benchmark."""

from kosambi.reproduce.machine import describe as describe
