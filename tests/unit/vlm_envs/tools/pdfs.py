"""PDF files for tests, written by hand: as small as the format allows, and broken on purpose where asked for."""

from __future__ import annotations

import io

from reportlab.pdfgen import canvas

A4_POINTS = (595, 842)


def pdf(texts: list[str], *, size: tuple[float, float] = A4_POINTS, trailer_extra: str = "", extra: str = "") -> bytes:
    """Returns a PDF with one page for each text, written in Helvetica of 24 points near the page's top.

    Args:
        texts: Latin text without brackets or backslashes; empty for a page without a text layer.
        size: Width and height of every page in points.
        trailer_extra: Further entries of the trailer.
        extra: A further object's body; its number is 3 + twice the number of pages.
    """
    num_pages = len(texts)
    kids = " ".join(f"{4 + 2 * index} 0 R" for index in range(num_pages))
    bodies = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {num_pages} /MediaBox [0 0 {size[0]} {size[1]}] >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for index, text in enumerate(texts):
        stream = f"BT /F1 24 Tf 40 {size[1] - 60} Td ({text}) Tj ET" if text else ""
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * index} 0 R >>"
        )
        bodies.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    if extra:
        bodies.append(extra)
    content, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, start=1):
        offsets.append(len(content))
        content += f"{number} 0 obj\n{body}\nendobj\n".encode("latin-1")
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    trailer = f"trailer\n<< /Size {len(bodies) + 1} /Root 1 0 R {trailer_extra} >>\nstartxref\n{len(content)}\n%%EOF\n"
    return content + f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}{trailer}".encode("latin-1")


def encrypted_pdf() -> bytes:
    """Returns a PDF that asks for a password nobody knows."""
    key = "00" * 32
    encryption = f"<< /Filter /Standard /V 1 /R 2 /O <{key}> /U <{'11' * 32}> /P -4 >>"
    return pdf(["secret"], trailer_extra=f"/Encrypt 6 0 R /ID [<{'22' * 16}> <{'22' * 16}>]", extra=encryption)


def form_pdf() -> bytes:
    """Returns a PDF of one page with three text fields (one of them hidden, one a password), a choice, and a note."""
    file = io.BytesIO()
    page = canvas.Canvas(file)
    page.drawString(40, 780, "Order form")
    page.acroForm.textfield(name="code", value="QX-4711", x=40, y=700, width=200, height=24)
    page.acroForm.textfield(name="key", value="swordfish", x=40, y=650, width=200, height=24, fieldFlags="password")
    page.acroForm.textfield(name="draft", value="obsolete", x=40, y=620, annotationFlags="hidden")
    page.acroForm.choice(name="city", value="Bergen", options=["Oslo", "Bergen"], x=40, y=580, width=100, height=20)
    page.freeTextAnnotation("checked by Frida", (300, 700, 400, 720))
    page.save()
    return file.getvalue()
